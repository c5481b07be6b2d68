// The bases of `fidelity`: second moments of the calibration files, and from them (or from the tested gradient itself) U.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gift/fidelity.hpp"

namespace gift {

/// Names of activation dumps: NAME.input and NAME.output_grad.
bool is_activation(const std::string& tensor_name);

class FidelityBases {
 public:
  FidelityBases(std::string backend, std::int64_t exact_limit) : backend_(std::move(backend)), exact_limit_(exact_limit) {}

  /// Adds a calibration file to the gradients or, if it has activations, to the activations.
  Status add_file(const std::string& path);
  bool has(BasisOrigin origin) const noexcept;
  std::vector<std::string> warnings() const;

  /// The basis of `method` for one matrix (values: rows x cols, for BasisOrigin::own). What does not depend on the values is made
  /// once. Never null: why there is none is in the Status.
  Result<LayerBasisPtr> get(const std::string& name, const std::vector<std::int64_t>& shape, const Method& method,
                            const std::vector<float>& values);

 private:
  Result<LayerBasisPtr> make(const std::string& name, const Method& method) const;
  Result<LayerBasisPtr> make_own(const std::string& name, const std::vector<std::int64_t>& shape, const Method& method,
                                 const std::vector<float>& values) const;

  std::string backend_;
  std::int64_t exact_limit_;
  std::optional<Accumulator> gradients_, activations_;
  std::map<std::pair<std::string, std::string>, Result<LayerBasisPtr>> made_;  // by tensor name and method label
};

}  // namespace gift
