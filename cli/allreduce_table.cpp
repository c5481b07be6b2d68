// Table, JSON and advice of `gift allreduce-test`.
#include "allreduce_table.hpp"

#include <algorithm>
#include <cstdio>

namespace gift::cli {
namespace {

double per_second(double bytes, double seconds) { return seconds > 0 ? bytes / seconds / 1e9 : 0; }

/// GB/s with three decimals: small figures stay short.
std::string rate(double gb_s) {
  char text[32];
  std::snprintf(text, sizeof text, gb_s > 0 && gb_s < 0.001 ? "<0.001" : "%.3f", gb_s);
  return text;
}

}  // namespace

std::pair<std::string, std::string> common_ends(const std::vector<std::string>& names) {
  std::string first;
  std::size_t head = std::string::npos, tail = std::string::npos, shortest = std::string::npos;
  for (const std::string& name : names) {
    if (name == "all") continue;
    if (first.empty()) {
      first = name;
      head = tail = shortest = name.size();
      continue;
    }
    shortest = std::min(shortest, name.size());
    std::size_t h = 0, t = 0;
    while (h < std::min(head, name.size()) && name[h] == first[h]) ++h;
    while (t < std::min(tail, name.size()) && name[name.size() - 1 - t] == first[first.size() - 1 - t]) ++t;
    head = h;
    tail = t;
  }
  if (first.empty() || head == first.size()) return {};  // one name, or none
  while (head > 0 && first[head - 1] != '.') --head;
  while (tail > 0 && first[first.size() - tail] != '.') --tail;
  if (head + tail >= shortest) tail = 0;
  return {first.substr(0, head), first.substr(first.size() - tail)};
}

void AllreduceTable::explain(const Transport& transport, const std::string& backend, std::int64_t iterations,
                             std::int64_t warmup) {
  context_.print(
      "# ranks: " + std::to_string(transport.size()) + " (" + (transport.size() == 1 ? "one process" : transport.name()) +
      "), schedule two-shot, backend " + backend + ", " + std::to_string(iterations) + " timed iterations after " +
      std::to_string(warmup) + " of warm-up\n" +
      "# time: one all-reduce, slowest rank. GB/s logical: FP32 bytes over time; wire: bytes a rank sends over time.\n"
      "# ratio: bytes sent over those of an FP32 all-reduce of the same kind, scales and headers counted.\n"
      "# RelL2: |result - exact| / |exact|, exact in FP64 over all ranks' gradients. equal: all ranks hold the same bytes.\n" +
      (dumps_ ? "# #wrong: elements of any rank that differ from the same all-reduce computed in one process, bit for bit.\n"
              : "# #wrong: elements of any rank that are not exactly the sum, on inputs whose sum is exact ('-': the format has "
                "none).\n"));
}

void AllreduceTable::add(const std::string& layer, const std::string& format, const std::string& coordinates,
                         const AllreduceResult& result) {
  lines_.push_back({layer, format, coordinates, result});
  add_json(lines_.back());
  note_problems(lines_.back());
}

void AllreduceTable::add_json(const Line& line) {
  const AllreduceResult& r = line.result;
  JsonRow& row = context_.json.add_row();
  if (dumps_) row.set("layer", line.layer);
  row.set("bytes", r.bytes).set("count", r.count).set("format", line.format).set("coordinates", line.coordinates);
  row.set("schedule", "two-shot").set("time_us", r.time_s * 1e6);
  row.set("logical_gb_s", per_second(static_cast<double>(r.bytes), r.time_s));
  row.set("wire_bytes", r.wire_bytes).set("wire_gb_s", per_second(r.wire_bytes, r.time_s)).set("wire_ratio", r.wire_ratio);
  if (!(r.rel_l2 < 0)) row.set("rel_l2", r.rel_l2);
  if (r.wrong >= 0) row.set("wrong", r.wrong);
  row.set("replicas_equal", r.replicas_equal);
  row.set("encode_us", r.encode_s * 1e6).set("exchange_us", r.exchange_s * 1e6).set("reduce_us", r.reduce_s * 1e6);
  row.set("gather_us", r.gather_s * 1e6).set("decode_us", r.decode_s * 1e6);
}

void AllreduceTable::note_problems(const Line& line) {
  const AllreduceResult& r = line.result;
  const std::string where = (dumps_ ? line.layer : std::to_string(r.count) + " elements") + ", " + line.format + ": ";
  if (r.wrong > 0) problems_.push_back(where + std::to_string(r.wrong) + " wrong elements");
  if (!r.replicas_equal) problems_.push_back(where + "ranks ended with different bytes");
  for (const std::string& name : r.vanished)
    problems_.push_back(where + "tensor '" + name + "' came out all zero from gradients that are not");
  for (const std::string& name : r.non_finite) context_.warn(where + "not finite: " + name);
}

void AllreduceTable::print() {
  const bool maps = std::any_of(lines_.begin(), lines_.end(), [](const Line& l) { return l.coordinates != "euclidean"; });
  std::vector<std::string> names;
  for (const Line& line : lines_) names.push_back(line.layer);
  const auto [head, tail] = dumps_ ? common_ends(names) : std::pair<std::string, std::string>();
  if (!head.empty() || !tail.empty())
    context_.print("# layers are shown without '" + head + "' in front" + (tail.empty() ? "" : " and '" + tail + "' behind") +
                   "\n");
  std::vector<Column> columns = {
      dumps_ ? Column{"layer", Align::left} : Column{"size", Align::right}, {"count", Align::right}, {"format", Align::left}};
  if (maps) columns.push_back({"coordinates", Align::left});
  for (const char* title : {"time us", "logical", "wire", "ratio", "RelL2", "#wrong"}) columns.push_back({title, Align::right});
  columns.push_back({"equal", Align::left});
  Table table(columns);
  for (const Line& line : lines_) {
    const AllreduceResult& r = line.result;
    std::string name = format_bytes(static_cast<double>(r.bytes));
    if (dumps_)
      name = line.layer == "all" ? "all" : line.layer.substr(head.size(), line.layer.size() - head.size() - tail.size());
    std::vector<std::string> cells = {name, std::to_string(r.count), line.format};
    if (maps) cells.push_back(line.coordinates);
    cells.push_back(format_real(r.time_s * 1e6, 4));
    cells.push_back(rate(per_second(static_cast<double>(r.bytes), r.time_s)));
    cells.push_back(rate(per_second(r.wire_bytes, r.time_s)));
    cells.push_back(format_real(r.wire_ratio, 3));
    cells.push_back(r.rel_l2 < 0 ? "-" : format_real(r.rel_l2, 3));
    cells.push_back(r.wrong < 0 ? "-" : std::to_string(r.wrong));
    cells.push_back(r.replicas_equal ? "yes" : "NO");
    table.add(cells, r.wrong > 0 || !r.replicas_equal || !r.vanished.empty() ? Mark::bad : Mark::none);
  }
  context_.print(table);
  print_advice();
}

/// Where the time of the last line went, and from which size on compressing pays between these ranks.
void AllreduceTable::print_advice() {
  if (lines_.empty()) return;
  const AllreduceResult& last = lines_.back().result;
  const auto us = [](double seconds) { return format_real(seconds * 1e6, 3) + " us"; };
  context_.print("# last line, rank 0: encode " + us(last.encode_s) + ", exchange " + us(last.exchange_s) + ", sum and encode " +
                 us(last.reduce_s) + ", gather " + us(last.gather_s) + ", decode " + us(last.decode_s) + "\n");
  if (dumps_) return;
  std::map<std::int64_t, double> plain, best;
  for (const Line& line : lines_) {
    const double time = line.result.time_s;
    if (line.format == "fp32")
      plain[line.result.bytes] = time;
    else if (const auto found = best.find(line.result.bytes); found == best.end() || time < found->second)
      best[line.result.bytes] = time;
  }
  if (plain.empty() || best.empty()) return;
  std::int64_t from = 0;
  for (const auto& [bytes, time] : best) {
    const auto found = plain.find(bytes);
    if (found == plain.end() || time >= found->second)
      from = 0;
    else if (from == 0)
      from = bytes;
  }
  context_.print(
      from > 0
          ? "# faster than fp32 between these ranks from " + format_bytes(static_cast<double>(from)) + " on, no gain below\n"
          : "# no gain over fp32 between these ranks up to " + format_bytes(static_cast<double>(best.rbegin()->first)) + "\n");
}

}  // namespace gift::cli
