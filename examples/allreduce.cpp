// Four ranks as threads of one process average a gradient in FP8 with error feedback, and compare with the exact mean.
// With MPI only the transport changes: gift::make_mpi_transport(MPI_COMM_WORLD) of <gift/mpi.hpp> and one rank a process.
#include <cmath>
#include <cstdio>
#include <gift/gift.hpp>
#include <random>
#include <thread>
#include <vector>

constexpr int ranks = 4, rows = 256, cols = 512;

/// One rank: opens a session, reduces its gradient in place, and returns an error's text or nothing.
std::string average(gift::Transport& transport, std::vector<float>& gradient) {
  const auto recipe = gift::parse_recipe("format = \"e4m3:block:128\"\nerror_feedback = true\n", "example");
  if (!recipe.ok()) return recipe.status().message();
  auto plan = gift::Plan::make(*recipe, {{"layer.weight", {rows, cols}, gift::Dtype::f32}}, transport.size(), {});
  if (!plan.ok()) return plan.status().message();
  auto session = gift::Session::open(std::move(plan).value(), transport);
  if (!session.ok()) return session.status().message();
  const gift::TensorBuffer buffers[] = {{0, gradient.data(), rows * cols}};
  if (const auto status = (*session)->reduce(buffers); !status.ok()) return status.message();
  const auto report = (*session)->wait();
  if (!report.ok()) return report.status().message();
  if (transport.rank() == 0) std::printf("rank 0 sent %llu bytes\n", static_cast<unsigned long long>(report->bytes_sent));
  return "";
}

int main() {
  std::vector<std::vector<float>> gradients(ranks, std::vector<float>(rows * cols));
  std::vector<double> exact(rows * cols);
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (auto& gradient : gradients)
    for (std::size_t k = 0; k < gradient.size(); ++k) exact[k] += (gradient[k] = normal(random)) / double{ranks};

  auto transports = gift::make_threads_transports(ranks);
  std::vector<std::string> errors(ranks);
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < ranks; ++r) threads.emplace_back([&, r] { errors[r] = average(*transports[r], gradients[r]); });
  for (auto& thread : threads) thread.join();
  for (const auto& error : errors)
    if (!error.empty()) return std::fprintf(stderr, "%s\n", error.c_str()), 1;

  double error = 0, size = 0;
  for (std::size_t k = 0; k < exact.size(); ++k) error += std::pow(gradients[0][k] - exact[k], 2), size += exact[k] * exact[k];
  const bool equal = gradients[1] == gradients[0] && gradients[2] == gradients[0] && gradients[3] == gradients[0];
  std::printf("relative error of the mean %.4f; all ranks hold the same: %s\n", std::sqrt(error / size), equal ? "yes" : "no");
  return equal && std::sqrt(error / size) < 0.05 ? 0 : 1;
}
