// What `gift allreduce-test` shows: the explanation, the table, the JSON rows and the advice at the end.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "allreduce_case.hpp"
#include "cli.hpp"

namespace gift::cli {

class AllreduceTable {
 public:
  /// `dumps`: lines are layers, else sizes.
  AllreduceTable(Context& context, bool dumps) : context_(context), dumps_(dumps) {}

  void explain(const Transport& transport, const std::string& backend, std::int64_t iterations, std::int64_t warmup);
  void add(const std::string& layer, const std::string& format, const std::string& coordinates, const AllreduceResult& result);
  void print();
  /// What is wrong, line by line; empty if all is well.
  const std::vector<std::string>& problems() const noexcept { return problems_; }

 private:
  struct Line {
    std::string layer, format, coordinates;
    AllreduceResult result;
  };
  void add_json(const Line& line);
  void note_problems(const Line& line);
  void print_advice();

  Context& context_;
  bool dumps_;
  std::vector<Line> lines_;
  std::vector<std::string> problems_;
};

/// What all names but "all" begin and end with, up to dots: "layers.1." and ".weight" of "layers.1.fc1.weight",
/// "layers.1.fc2.weight". Left out of the table so that it stays readable.
std::pair<std::string, std::string> common_ends(const std::vector<std::string>& names);

}  // namespace gift::cli
