// gift::verify: opens the backend that was asked for, runs the parts, and reports what was compared. A row that compared nothing
// is a failure, and so is a report without rows.
#include "gift/verify.hpp"

#include <algorithm>
#include <bit>
#include <exception>

#include "gift/codec.hpp"
#include "verify_internal.hpp"

namespace gift {
namespace verification {

VerifyRow& Context::row(const std::string& what, const std::string& against) {
  const auto at =
      std::find_if(rows.begin(), rows.end(), [&](const VerifyRow& r) { return r.what == what && r.against == against; });
  if (at != rows.end()) return *at;
  VerifyRow row;
  row.what = what;
  row.against = against;
  rows.push_back(row);
  return rows.back();
}

void Context::add(const std::string& what, const std::string& against, const golden::Tally& tally) {
  VerifyRow& r = row(what, against);
  r.compared += tally.compared;
  r.different += tally.different;
  if (r.first.empty()) r.first = tally.first;
}

void compare_bytes(VerifyRow& row, std::span<const std::byte> got, std::span<const std::byte> expected,
                   const std::string& where) {
  if (got.size() != expected.size()) return compare_counts(row, got.size(), expected.size(), where + ": bytes");
  for (std::size_t i = 0; i < got.size(); ++i) {
    ++row.compared;
    if (got[i] == expected[i]) continue;
    ++row.different;
    if (row.first.empty()) {
      row.first = where + ", byte " + std::to_string(i) + ": got " + golden::hex(std::to_integer<unsigned>(got[i]), 2) +
                  ", expected " + golden::hex(std::to_integer<unsigned>(expected[i]), 2);
    }
  }
}

void compare_floats(VerifyRow& row, std::span<const float> got, std::span<const float> expected, const std::string& where) {
  if (got.size() != expected.size()) return compare_counts(row, got.size(), expected.size(), where + ": numbers");
  const auto is_nan = [](std::uint32_t b) { return (b & 0x7fffffffu) > 0x7f800000u; };
  for (std::size_t i = 0; i < got.size(); ++i) {
    const auto a = std::bit_cast<std::uint32_t>(got[i]), b = std::bit_cast<std::uint32_t>(expected[i]);
    ++row.compared;
    if (a == b || (is_nan(a) && is_nan(b))) continue;
    ++row.different;
    if (row.first.empty()) {
      row.first = where + ", element " + std::to_string(i) + ": got " + golden::shortest(got[i]) + " (" + golden::hex(a, 8) +
                  "), expected " + golden::shortest(expected[i]) + " (" + golden::hex(b, 8) + ")";
    }
  }
}

void compare_counts(VerifyRow& row, std::uint64_t got, std::uint64_t expected, const std::string& where) {
  ++row.compared;
  if (got == expected) return;
  ++row.different;
  if (row.first.empty()) row.first = where + ": got " + std::to_string(got) + ", expected " + std::to_string(expected);
}

namespace {

Status run_parts(Context& context) {
  for (const auto part : {verify_elements, verify_encodings, verify_formats, verify_geometries, verify_sums, verify_packets}) {
    if (Status status = part(context); !status.ok()) return status;
  }
  return Status();
}

Result<VerifyReport> run(const VerifyOptions& options, const Progress& progress) {
  Result<std::shared_ptr<const Backend>> subject = open_backend(options.backend);
  if (!subject.ok()) return subject.status();
  const bool is_reference = (*subject)->name() == std::string("ref");
  Result<std::shared_ptr<const Backend>> peer = open_backend(is_reference ? "cpu" : "ref");
  if (!peer.ok()) return peer.status();
  Context context{options, progress, **subject, **peer, is_reference ? "default path" : "reference", {}};
  if (Status status = run_parts(context); !status.ok()) return status.at("verify " + options.backend);
  VerifyReport report;
  report.backend = (*subject)->name();
  report.device = (*subject)->describe();
  report.rows = std::move(context.rows);
  return report;
}

}  // namespace
}  // namespace verification

bool VerifyReport::passed() const {
  return !rows.empty() &&
         std::all_of(rows.begin(), rows.end(), [](const VerifyRow& r) { return r.compared > 0 && r.different == 0; });
}

Result<VerifyReport> verify(const VerifyOptions& options, const Progress& progress) {
  try {
    return verification::run(options, progress);
  } catch (const std::bad_alloc&) {
    return Status(Code::out_of_memory, "verify: out of memory");
  } catch (const std::exception& error) {
    return Status(Code::internal, std::string("verify: ") + error.what());
  }
}

}  // namespace gift
