// Plan: shapes to matrices, shards, layouts, byte counts, fingerprints, and every refusal with its words.
#include <cmath>
#include <limits>

#include "catch.hpp"
#include "gift/plan.hpp"
#include "packet.hpp"

using namespace gift;

namespace {

constexpr std::int64_t huge = std::int64_t{1} << 32;

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

bool close(double a, double b) { return std::abs(a - b) <= 1e-9 * std::abs(b); }

/// Unit columns: orthonormal in any format.
SideBasis unit_side(std::int64_t dim, std::int32_t rank) {
  SideBasis side;
  side.dim = dim;
  side.rank = rank;
  side.u.assign(static_cast<std::size_t>(dim * rank), 0.0f);
  for (std::int32_t j = 0; j < rank; ++j) side.u[static_cast<std::size_t>(j) * static_cast<std::size_t>(rank + 1)] = 1.0f;
  side.eigenvalues.assign(static_cast<std::size_t>(rank), 1.0);
  side.trace = static_cast<double>(dim);
  return side;
}

LayerBasisPtr unit_basis(GeometryKind kind, Side side, std::int64_t rows, std::int64_t cols, std::int32_t rank) {
  LayerBasis basis;
  basis.kind = kind;
  basis.side = side;
  const auto fill = [&](SideBasis& s, std::int64_t dim) {
    s = unit_side(dim, rank);
    if (kind == GeometryKind::whiten) {
      s.d.assign(static_cast<std::size_t>(rank), 0.5f);
      s.d_inv.assign(static_cast<std::size_t>(rank), 1.0f);
    }
  };
  if (has_right(side)) fill(basis.right, cols);
  if (has_left(side)) fill(basis.left, rows);
  const Status sealed = basis.seal();
  INFO(sealed.message());
  REQUIRE(sealed.ok());
  return std::make_shared<const LayerBasis>(basis);
}

GeometrySpec geometry(GeometryKind kind, Side side = Side::none, std::int32_t rank = 0) {
  GeometrySpec g;
  g.kind = kind;
  g.side = side;
  g.rank = rank;
  return g;
}

FormatSpec format(const std::string& text) {
  Result<FormatSpec> parsed = parse_format(text);
  REQUIRE(parsed.ok());
  return *parsed;
}

std::string refusal(const TensorDesc& desc, const std::string& wire, const GeometrySpec& g, const LayerBasisPtr& basis,
                    int world = 2) {
  Result<TensorPlan> plan = plan_tensor(desc, format(wire), g, basis, false, ReduceOp::mean, world);
  REQUIRE_FALSE(plan.ok());
  CHECK(plan.status().code() == Code::invalid_argument);
  CHECK_FALSE(has(plan.status().message(), "\n"));
  return plan.status().message();
}

}  // namespace

TEST_CASE("matrix_view reads shapes by rule", "[plan]") {
  const auto view = [](std::vector<std::int64_t> shape, MatrixRule rule = MatrixRule::automatic) {
    Result<MatrixView> v = matrix_view(shape, rule);
    REQUIRE(v.ok());
    return std::pair(v->rows, v->cols);
  };
  using P = std::pair<std::int64_t, std::int64_t>;
  CHECK(view({}) == P(1, 1));
  CHECK(view({5}) == P(1, 5));
  CHECK(view({0}) == P(1, 0));
  CHECK(view({3, 4}) == P(3, 4));
  CHECK(view({2, 3, 4}) == P(6, 4));
  CHECK(view({2, 3, 4}, MatrixRule::convolution) == P(2, 12));
  CHECK(view({8, 3, 5, 7}) == P(8, 105));
  CHECK(view({8, 3, 5, 7}, MatrixRule::stack) == P(120, 7));
  CHECK(view({0, huge, 3}, MatrixRule::stack) == P(0, 3));
}

TEST_CASE("matrix_view refuses what does not fit", "[plan]") {
  const auto message = [](std::vector<std::int64_t> shape) {
    Result<MatrixView> v = matrix_view(shape, MatrixRule::automatic);
    REQUIRE_FALSE(v.ok());
    return v.status().message();
  };
  CHECK(has(message({3, -1}), "negative extent -1"));
  CHECK(has(message({huge, huge}), "[4294967296, 4294967296]"));
  CHECK(has(message({huge, 0, huge}), "more elements"));  // a zero does not hide the overflow
  CHECK(has(message({std::numeric_limits<std::int64_t>::max(), 2}), "more elements"));
}

TEST_CASE("even_cut divides without overflow and without gaps", "[plan]") {
  CHECK(even_cut(10, 3, 0) == 0);
  CHECK(even_cut(10, 3, 1) == 3);
  CHECK(even_cut(10, 3, 2) == 6);
  CHECK(even_cut(10, 3, 3) == 10);
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  for (const int parts : {1, 2, 7, 65536}) {
    CHECK(even_cut(most, parts, 0) == 0);
    CHECK(even_cut(most, parts, parts) == most);
    for (int k = 0; k < parts && k < 10; ++k) CHECK(even_cut(most, parts, k) < even_cut(most, parts, k + 1));
  }
  for (const std::int64_t count : {0, 1, 2, 3, 17}) {
    for (int k = 0; k <= 7; ++k) CHECK(even_cut(count, 7, k) == count * k / 7);
  }
}

TEST_CASE("layouts cover rows and columns once, at multiples of 16, for any world", "[plan]") {
  for (const int world : {1, 2, 3, 4, 7, 15, 40}) {
    for (const bool feedback : {false, true}) {
      const TensorDesc desc{"w", {17, 33}, Dtype::f32};
      Result<TensorPlan> made =
          plan_tensor(desc, format("nvfp4"), geometry(GeometryKind::deflate, Side::both, 4),
                      unit_basis(GeometryKind::deflate, Side::both, 17, 33, 4), feedback, ReduceOp::mean, world);
      INFO(made.status().message());
      REQUIRE(made.ok());
      std::int64_t row = 0, col = 0;
      for (int k = 0; k < world; ++k) {
        const PayloadLayout& a = made->leg1[static_cast<std::size_t>(k)];
        const PayloadLayout& b = made->leg2[static_cast<std::size_t>(k)];
        CHECK(a.row_begin == row);
        CHECK(a.col_begin == col);
        CHECK((a.row_begin == b.row_begin && a.row_end == b.row_end && a.col_begin == b.col_begin && a.col_end == b.col_end));
        row = a.row_end;
        col = a.col_end;
        CHECK(a.s_left_elem_bytes == 2);
        CHECK(b.s_left_elem_bytes == (feedback ? 2 : 4));
        for (const PayloadLayout* p : {&a, &b}) {
          const std::int64_t rows = p->row_end - p->row_begin, cols = p->col_end - p->col_begin;
          CHECK(p->s_left_offset >= p->s_right_offset + rows * 4 * 2);
          CHECK(p->bitmap_offset >= p->s_left_offset + cols * 4 * p->s_left_elem_bytes);
          CHECK(p->bitmap_bytes == (rows + 7) / 8);
          CHECK(p->elem_offset >= p->bitmap_offset + p->bitmap_bytes);
          CHECK(p->total_bytes == p->elem_offset + p->elem.total_bytes);
          for (const std::int64_t offset : {p->s_left_offset, p->bitmap_offset, p->elem_offset, p->total_bytes})
            CHECK(offset % 16 == 0);
        }
      }
      CHECK(row == 17);
      CHECK(col == 33);
    }
  }
}

TEST_CASE("geometry is resolved, and what does not fit is named", "[plan]") {
  const TensorDesc desc{"layers.0.fc", {8, 48}, Dtype::bf16};
  const auto plan = [&](const GeometrySpec& g, const LayerBasisPtr& basis) {
    Result<TensorPlan> made = plan_tensor(desc, format("e4m3"), g, basis, false, ReduceOp::mean, 2);
    INFO(made.status().message());
    REQUIRE(made.ok());
    return *made;
  };
  CHECK(plan(geometry(GeometryKind::hadamard), nullptr).geometry.hadamard_block == 16);
  CHECK(plan(geometry(GeometryKind::hadamard), nullptr).geometry.side == Side::right);
  const LayerBasisPtr right = unit_basis(GeometryKind::deflate, Side::right, 8, 48, 4);
  CHECK(plan(geometry(GeometryKind::deflate, Side::none, 0), right).geometry.rank == 4);
  CHECK(plan(geometry(GeometryKind::deflate, Side::right, 32), right).geometry.rank == 4);  // the factor had no more
  CHECK(plan(geometry(GeometryKind::euclidean), right).basis == nullptr);

  const GeometrySpec wanted = geometry(GeometryKind::deflate, Side::right, 4);
  CHECK(has(refusal(desc, "e4m3", wanted, nullptr), "tensor 'layers.0.fc'"));
  CHECK(has(refusal(desc, "e4m3", wanted, nullptr), "[8, 48]"));
  CHECK(has(refusal(desc, "e4m3", wanted, nullptr), "needs a basis"));
  CHECK(has(refusal(desc, "e4m3", wanted, unit_basis(GeometryKind::deflate, Side::right, 8, 47, 4)),
            "length 47, the 8 x 48 matrix needs 48"));
  CHECK(has(refusal(desc, "e4m3", wanted, unit_basis(GeometryKind::deflate, Side::right, 8, 48, 5)),
            "rank 5, the recipe asks for 4"));
  CHECK(has(refusal(desc, "e4m3", geometry(GeometryKind::deflate, Side::right, 0),
                    unit_basis(GeometryKind::deflate, Side::right, 8, 48, 9)),
            "rank 9, expected 1 to 8"));
  CHECK(has(refusal(desc, "e4m3", wanted, unit_basis(GeometryKind::whiten, Side::right, 8, 48, 4)),
            "for whiten right, the recipe asks for deflate right"));
  CHECK(has(refusal(desc, "e4m3", wanted, unit_basis(GeometryKind::deflate, Side::left, 8, 48, 4)), "for deflate left"));
  CHECK(has(refusal(desc, "e4m3", geometry(GeometryKind::hadamard, Side::left), nullptr), "hadamard"));
  CHECK(has(refusal(desc, "fp32", geometry(GeometryKind::hadamard), nullptr), "fp32"));
  LayerBasis unsealed = *right;
  unsealed.hash = Hash128{};
  CHECK(has(refusal(desc, "e4m3", wanted, std::make_shared<const LayerBasis>(unsealed)), "sealed"));
  LayerBasis truncated = *right;
  truncated.right.u.pop_back();
  CHECK(has(refusal(desc, "e4m3", wanted, std::make_shared<const LayerBasis>(truncated)), "191 numbers, expected 48 x 4"));
  CHECK(has(refusal(desc, "e4m3", geometry(GeometryKind::euclidean), nullptr, 0), "not 0"));
  CHECK(has(refusal({"x", {huge, huge / 4}, Dtype::f32}, "fp32", geometry(GeometryKind::euclidean), nullptr),
            "[4294967296, 1073741824]"));
}

TEST_CASE("empty tensors are planned without a basis", "[plan]") {
  for (const std::vector<std::int64_t>& shape : {std::vector<std::int64_t>{0}, {0, 16}, {16, 0}, {2, 0, 7}}) {
    Result<TensorPlan> made = plan_tensor({"e", shape, Dtype::f32}, format("nvfp4"),
                                          geometry(GeometryKind::deflate, Side::both, 4), nullptr, true, ReduceOp::sum, 3);
    INFO(made.status().message());
    REQUIRE(made.ok());
    for (const PayloadLayout& p : made->leg1) CHECK(p.total_bytes == 0);
  }
}

TEST_CASE("a plan applies exemptions, checks names and counts bytes", "[plan]") {
  Recipe recipe;
  recipe.error_feedback = true;
  const std::vector<TensorDesc> tensors = {
      {"w", {64, 128}, Dtype::f32}, {"norm", {128}, Dtype::f32}, {"small", {4, 8}, Dtype::bf16}};
  Result<Plan> made = Plan::make(recipe, tensors, 4, BasisSet());
  INFO(made.status().message());
  REQUIRE(made.ok());
  const std::vector<TensorPlan>& list = made->tensors();
  REQUIRE(list.size() == 3);
  CHECK(list[0].format.format == Format::e4m3);
  CHECK(list[0].error_feedback);
  CHECK(list[1].format.format == Format::fp32);
  CHECK((list[1].rows == 128 && list[1].cols == 1));  // every rank owns a piece
  CHECK_FALSE(list[1].error_feedback);
  CHECK(list[2].format.format == Format::bf16);
  CHECK(list[2].exempt);
  CHECK(made->find("norm") == 1);
  CHECK(made->find("nothing") == -1);
  CHECK(list[0].id == static_cast<std::uint32_t>(xxh3_64(std::as_bytes(std::span("w", 1)))));
  double payload = 0, elements = 0;
  for (const TensorPlan& t : list) {
    elements += static_cast<double>(t.elements());
    for (std::size_t k = 0; k < 4; ++k) payload += static_cast<double>(t.leg1[k].total_bytes + t.leg2[k].total_bytes);
  }
  CHECK(close(made->bits_per_element(), payload * 4 / elements));
  CHECK(close(made->wire_bytes_per_rank(), (payload + 2 * 3 * 4 * packet_header_bytes) * 3 / 4));
  CHECK(close(made->fp32_bytes_per_rank(), elements * 4 * 2 * 3 / 4));

  std::vector<TensorDesc> twice = tensors;
  twice.push_back(tensors[0]);
  Result<Plan> refused = Plan::make(recipe, twice, 4, BasisSet());
  REQUIRE_FALSE(refused.ok());
  CHECK(has(refused.status().message(), "tensor 'w' is listed twice, at 0 and 3"));
  CHECK_FALSE(Plan::make(recipe, {{"", {1}, Dtype::f32}}, 4, BasisSet()).ok());
  Result<Plan> bad_shape = Plan::make(recipe, {{"w", {64, -128}, Dtype::f32}}, 4, BasisSet());
  REQUIRE_FALSE(bad_shape.ok());
  CHECK(has(bad_shape.status().message(), "tensor 'w'"));
}

TEST_CASE("a rule that takes back an exemption plans a vector as one row", "[plan]") {
  Recipe recipe;
  Rule rule;
  rule.match = "bias*";
  rule.exempt = false;
  recipe.rules.push_back(rule);
  Result<Plan> made = Plan::make(recipe, {{"bias.1", {640}, Dtype::f32}}, 2, BasisSet());
  REQUIRE(made.ok());
  CHECK((made->tensors()[0].rows == 1 && made->tensors()[0].cols == 640));
  CHECK(made->tensors()[0].format.format == Format::e4m3);
}

TEST_CASE("each field of the fingerprint answers for its part", "[plan]") {
  const LayerBasisPtr basis = unit_basis(GeometryKind::deflate, Side::right, 64, 128, 4);
  Recipe recipe;
  recipe.geometry = geometry(GeometryKind::deflate, Side::right, 4);
  const std::vector<TensorDesc> tensors = {{"w", {64, 128}, Dtype::f32}};
  const auto print = [](const Recipe& r, const std::vector<TensorDesc>& t, const LayerBasisPtr& b, int world = 2) {
    BasisSet set;
    set.layers["w"] = b;
    set.layers["nobody asks for it"] = b;
    Result<Plan> made = Plan::make(r, t, world, set);
    INFO(made.status().message());
    REQUIRE(made.ok());
    return made->fingerprint(9);
  };
  const Fingerprint base = print(recipe, tensors, basis);
  CHECK(base.step == 9);
  CHECK(base.tensors == 1);
  CHECK(base.elements == 64 * 128);
  CHECK(base.basis != 0);
  CHECK(base.recipe != 0);
  CHECK(print(recipe, tensors, basis).formats == base.formats);

  const Fingerprint dtype = print(recipe, {{"w", {64, 128}, Dtype::bf16}}, basis);
  CHECK(dtype.shapes != base.shapes);
  CHECK(dtype.formats == base.formats);
  CHECK(print(recipe, tensors, basis, 3).formats != base.formats);
  Recipe other = recipe;
  other.format = format("e5m2");
  const Fingerprint wire = print(other, tensors, basis);
  CHECK(wire.formats != base.formats);
  CHECK(wire.recipe != base.recipe);
  CHECK(wire.shapes == base.shapes);
  Recipe seeded = recipe;
  seeded.seed = 5;
  CHECK(print(seeded, tensors, basis).recipe != base.recipe);
  CHECK(print(seeded, tensors, basis).formats == base.formats);
  LayerBasis flipped = *basis;
  for (float& v : flipped.right.u) v = -v;
  REQUIRE(flipped.seal().ok());
  const Fingerprint turned = print(recipe, tensors, std::make_shared<const LayerBasis>(flipped));
  CHECK(turned.basis != base.basis);
  CHECK(turned.formats == base.formats);
}
