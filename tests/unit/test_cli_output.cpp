// Tables, progress lines and JSON reports.
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "catch.hpp"
#include "json_report.hpp"
#include "progress.hpp"
#include "table.hpp"

using namespace gift::cli;

namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

}  // namespace

TEST_CASE("a table aligns text left and numbers right", "[cli]") {
  Table table({{"layer", Align::left}, {"bits", Align::right}});
  table.add({"fc1", "8.25"});
  table.rule();
  table.section("a heading wider than the table");
  table.add({"überall", "4.5"}, Mark::bad);
  CHECK(table.text(false) ==
        "layer    bits\n"
        "fc1      8.25\n"
        "-------------\n"
        "a heading wider than the table\n"
        "überall   4.5\n");
  CHECK(table.text(true).find("\x1b[31müberall   4.5\x1b[0m\n") != std::string::npos);
  CHECK(table.text(false).find('\x1b') == std::string::npos);
}

TEST_CASE("a table fits 100 columns by shortening text, never numbers", "[cli]") {
  Table table({{"tensor", Align::left}, {"value", Align::right}, {"file", Align::left}});
  const std::string number(30, '7');
  table.add({std::string(90, 'a') + "END", number, "dump/" + std::string(80, 'b') + ".safetensors"});
  const auto lines = lines_of(table.text(false));
  REQUIRE(lines.size() == 2);
  for (const auto& line : lines) CHECK(display_width(line) <= 100);
  CHECK(lines[1].find(number) != std::string::npos);
  CHECK(lines[1].find("END") != std::string::npos);
  CHECK(lines[1].find(".safetensors") != std::string::npos);
  CHECK(lines[1].find("..") != std::string::npos);
}

TEST_CASE("a progress line shows done, rate and time left within the width", "[cli]") {
  const std::string line = progress_line(5, 10, 2.5, "fc1", 100);
  CHECK(line == "[============>           ] 5/10  2.50/s  2.0 s left  fc1");
  CHECK(progress_line(10, 10, 0, "", 100).find("[========================]") == 0);
  CHECK(progress_line(5, 10, 2.5, std::string(300, 'x'), 79).size() == 79);
  CHECK(progress_line(3, 0, 1, "empty", 100).find("0/0") != std::string::npos);
}

TEST_CASE("a JSON report keeps order, turns NaN into null with a note, and stays valid", "[cli]") {
  JsonReport report("fidelity");
  report.set_world_size(4);
  auto& first = report.add_row();
  first.set("layer", "fc1").set("rel_l2", std::nan("")).set("mse", INFINITY).set("rank", 32).set("equal", true);
  report.add_row().set("bytes", std::uint64_t{1} << 63).set("name", "\xff\"\n");
  first.set("late", 1.5);
  report.top().set("device", "cpu");
  report.set_error("first\nline");
  report.set_error("second");
  const auto json = nlohmann::ordered_json::parse(report.text());
  CHECK(json["command"] == "fidelity");
  CHECK(json["world_size"] == 4);
  CHECK(json["device"] == "cpu");
  CHECK(json["error"] == "first\nline");
  REQUIRE(json["rows"].size() == 2);
  CHECK(json["rows"][0]["rel_l2"].is_null());
  CHECK(json["rows"][0]["note"] == "rel_l2 is nan; mse is inf");
  CHECK(json["rows"][0]["late"] == 1.5);
  CHECK(json["rows"][0].begin().key() == "layer");
  CHECK(json["rows"][1]["bytes"] == std::uint64_t{1} << 63);
}

TEST_CASE("a JSON report replaces a file whole or not at all", "[cli]") {
  const auto folder = std::filesystem::temp_directory_path() / ("gift-json-" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  const std::string path = (folder / "report.json").string();
  std::ofstream(path) << "old";
  JsonReport report("verify");
  REQUIRE(report.write(path).ok());
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  CHECK(text.str() == report.text());
  CHECK(std::distance(std::filesystem::directory_iterator(folder), {}) == 1);
  const auto status = report.write((folder / "no-such" / "report.json").string());
  CHECK(status.code() == gift::Code::io);
  CHECK(status.message().find("no-such/report.json") != std::string::npos);
  std::filesystem::remove_all(folder);
}
