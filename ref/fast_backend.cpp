// The default backend, "cpu": the verbs of ref_pipeline.hpp over the fastest kernels there are. Where none is written the scalar
// one serves; tests hold every byte equal to the reference either way.
#include "fast_kernels.hpp"
#include "fast_transform.hpp"
#include "ref_pipeline.hpp"

namespace gift {

std::shared_ptr<const Backend> make_cpu_backend() {
  ref::Kernels kernels = ref::scalar_kernels();
  kernels.finite_amax = fast::finite_amax;
  kernels.encode_elements = fast::encode_elements;
  kernels.decode_elements = fast::decode_elements;
  kernels.convert_values = fast::convert_values;
  kernels.project_right = fast::project_right;
  kernels.project_left = fast::project_left;
  kernels.add_outer_right = fast::add_outer_right;
  kernels.add_outer_left = fast::add_outer_left;
  kernels.hadamard_forward = fast::hadamard_forward;
  kernels.hadamard_inverse = fast::hadamard_inverse;
  const std::string description = std::string("default path on the CPU, transforms by ") + fast::path_name(fast::best_path()) +
                                  ", element codecs by " + fast::kernels().name;
  return ref::make_pipeline_backend("cpu", description, kernels);
}

}  // namespace gift
