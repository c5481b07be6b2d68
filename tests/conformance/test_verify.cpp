// The checker checked: `verify` passes on the backends there are, and notices every kind of wrong output.
#include <cstring>

#include "catch.hpp"
#include "gift/verify.hpp"
#include "verify_internal.hpp"

using namespace gift;
using verification::Case;
using verification::Context;

namespace {

/// The default backend with one output of one verb changed.
class Spoilt final : public Backend {
 public:
  enum class Where {
    nowhere,
    payload,
    residual,
    written,
    stats,
    sum,
    quantised,
    loss,
    output,
    overflow,
    commit,
    owner,
    rollback,
    convert,
    expand
  };
  explicit Spoilt(Where where) : where_(where) {}
  const char* name() const noexcept override { return "spoilt"; }
  std::string describe() const override { return "test"; }

  Status encode(const EncodeArgs& args) const override {
    Status status = inner_->encode(args);
    if (where_ == Where::payload) args.payloads.back()[0] ^= std::byte{1};
    if (where_ == Where::residual) flip(args.residual);
    if (where_ == Where::written) args.row_written[0] ^= 1;
    if (where_ == Where::stats) ++args.stats->top_codes;
    return status;
  }
  Status reduce(const ReduceArgs& args) const override {
    Status status = inner_->reduce(args);
    if (where_ == Where::sum) args.payload[0] ^= std::byte{1};
    if (where_ == Where::quantised) flip(args.quantised);
    if (where_ == Where::loss) flip(args.left_loss);
    return status;
  }
  Status decode(const DecodeArgs& args) const override {
    Status status = inner_->decode(args);
    if (where_ == Where::output && !args.non_finite) flip(static_cast<float*>(args.output));
    if (where_ == Where::overflow) ++*args.overflowed;
    return status;
  }
  Status commit(const CommitArgs& args) const override {
    Status status = inner_->commit(args);
    if (where_ == Where::commit) flip(args.residual);
    if (where_ == Where::owner) flip(args.owner_residual);
    return status;
  }
  Status rollback(const RollbackArgs& args) const override {
    Status status = inner_->rollback(args);
    if (where_ == Where::rollback) flip(args.residual);
    return status;
  }
  Status re_express(const TensorPlan& a, const TensorPlan& b, int shard, float* owner, float* residual) const override {
    return inner_->re_express(a, b, shard, owner, residual);
  }
  Status convert(Element element, Rounding rounding, const RoundingKey& key, std::uint64_t first, std::span<const float> in,
                 std::span<std::uint16_t> out) const override {
    Status status = inner_->convert(element, rounding, key, first, in, out);
    if (where_ == Where::convert) out[out.size() / 2] ^= 1;
    return status;
  }
  Status expand(Element element, std::span<const std::uint16_t> in, std::span<float> out) const override {
    Status status = inner_->expand(element, in, out);
    if (where_ == Where::expand) flip(out.data() + out.size() / 2);
    return status;
  }
  const LinAlg& linalg() const override { return inner_->linalg(); }

 private:
  static void flip(float* x) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, x, sizeof bits);
    bits ^= 1;
    std::memcpy(x, &bits, sizeof bits);
  }
  Where where_;
  std::shared_ptr<const Backend> inner_ = make_cpu_backend();
};

using Where = Spoilt::Where;

const VerifyOptions options;
const Progress silent;

std::uint64_t differences(const std::vector<VerifyRow>& rows) {
  std::uint64_t sum = 0;
  for (const VerifyRow& row : rows) sum += row.different;
  return sum;
}

std::vector<VerifyRow> verbs(Where where) {
  const Spoilt subject(where);
  const auto peer = make_ref_backend();
  Context context{options, silent, subject, *peer, "reference", {}};
  Case c;
  c.format = parse_format("e4m3").value();
  c.geometry.kind = GeometryKind::deflate;
  c.geometry.side = Side::both;
  c.geometry.rank = 3;
  c.rows = 9;
  c.cols = 20;
  c.world = 2;
  const Status status = verification::check_verbs(context, "case", c);
  INFO(status.message());
  REQUIRE(status.ok());
  return context.rows;
}

}  // namespace

TEST_CASE("an intact backend differs nowhere, and every verb was compared", "[verify]") {
  const std::vector<VerifyRow> rows = verbs(Where::nowhere);
  CHECK(differences(rows) == 0);
  REQUIRE(rows.size() == 5);
  for (const VerifyRow& row : rows) {
    INFO(row.what << ": " << row.first);
    CHECK(row.compared > 100);
  }
}

TEST_CASE("each spoilt output is noticed in the row of its verb, and said where", "[verify]") {
  const struct {
    Where where;
    const char* row;
  } cases[] = {{Where::payload, "case encode"}, {Where::residual, "case encode"}, {Where::written, "case encode"},
               {Where::stats, "case encode"},   {Where::sum, "case sum"},         {Where::quantised, "case sum"},
               {Where::loss, "case sum"},       {Where::output, "case decode"},   {Where::overflow, "case decode"},
               {Where::commit, "case commit"},  {Where::owner, "case commit"},    {Where::rollback, "case rollback"}};
  for (const auto& c : cases) {
    const std::vector<VerifyRow> rows = verbs(c.where);
    for (const VerifyRow& row : rows) {
      INFO(row.what << " when spoilt in " << c.row << " (" << static_cast<int>(c.where) << ")");
      CHECK((row.different > 0) == (row.what == c.row));
      CHECK(row.first.empty() == (row.different == 0));
    }
  }
}

TEST_CASE("spoilt conversions and values are noticed against the tables", "[verify]") {
  for (const Where where : {Where::convert, Where::expand}) {
    const Spoilt subject(where);
    const auto peer = make_ref_backend();
    Context context{options, silent, subject, *peer, "reference", {}};
    REQUIRE(verification::verify_elements(context).ok());
    for (const VerifyRow& row : context.rows) {
      const bool is_conversion = row.what.find("conversion") != std::string::npos;
      INFO(row.what);
      CHECK((row.different > 0) == (is_conversion == (where == Where::convert)));
    }
  }
}

TEST_CASE("golden encodings notice a spoilt payload and a spoilt output", "[verify]") {
  for (const Where where : {Where::nowhere, Where::payload, Where::output}) {
    const Spoilt subject(where);
    const auto peer = make_ref_backend();
    Context context{options, silent, subject, *peer, "reference", {}};
    REQUIRE(verification::verify_encodings(context).ok());
    CHECK(context.rows.size() == 14);  // seven formats, encoded and decoded
    CHECK((differences(context.rows) > 0) == (where != Where::nowhere));
  }
}

TEST_CASE("a report that compared nothing does not pass", "[verify]") {
  VerifyReport report;
  CHECK_FALSE(report.passed());
  report.rows.push_back({"a", "table", 5, 0, ""});
  CHECK(report.passed());
  report.rows.push_back({"b", "table", 0, 0, ""});
  CHECK_FALSE(report.passed());
  report.rows.back() = {"b", "table", 3, 1, "x"};
  CHECK_FALSE(report.passed());
}

TEST_CASE("a backend that is not there is unavailable, never a pass", "[verify]") {
  VerifyOptions wrong;
  wrong.backend = "no-such-backend";
  const Result<VerifyReport> report = verify(wrong, nullptr);
  REQUIRE_FALSE(report.ok());
  CHECK(report.status().code() == Code::unavailable);
}

TEST_CASE("verify passes on the scalar reference and on the default path", "[verify]") {
  for (const char* backend : {"ref", "cpu"}) {
    VerifyOptions wanted;
    wanted.backend = backend;
    std::int64_t reports = 0;
    const Result<VerifyReport> report = verify(wanted, [&](std::int64_t, std::int64_t, const std::string&) { ++reports; });
    REQUIRE(report.ok());
    CHECK(report->backend == backend);
    CHECK(reports > 10);
    CHECK(report->rows.size() > 150);
    for (const VerifyRow& row : report->rows) {
      INFO(backend << ": " << row.what << " against " << row.against << ": " << row.first);
      CHECK(row.compared > 0);
      CHECK(row.different == 0);
    }
    CHECK(report->passed());
  }
}

TEST_CASE("rounding explained: the rule, both neighbours, the code taken", "[verify]") {
  const std::string tie = explain_rounding("e4m3", 4.25f).value();
  CHECK(tie.find("ties to the even code") != std::string::npos);
  CHECK(tie.find("code 0x48 = 4, 0.25 away") != std::string::npos);
  CHECK(tie.find("code 0x49 = 4.5, 0.25 away") != std::string::npos);
  CHECK(tie.find("taken  code 0x48 = 4, a tie") != std::string::npos);
  CHECK(explain_rounding("e5m2", -1e9f).value().find("0xfb = -57344, the largest") != std::string::npos);
  CHECK(explain_rounding("nvfp4", 3.0f).value().find("= 3, exactly") != std::string::npos);
  CHECK(explain_rounding("e4m3", std::numeric_limits<float>::quiet_NaN()).value().find("0x7f") != std::string::npos);
  CHECK_FALSE(explain_rounding("fp32", 1).ok());
  CHECK_FALSE(explain_rounding("e4m3:sr", 1).ok());
  CHECK_FALSE(explain_rounding("nonsense", 1).ok());
}
