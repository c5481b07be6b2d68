// The default backend, "cpu": the verbs of ref_pipeline.hpp over the fastest kernels there are. Where none is written the scalar
// one serves; tests hold every byte equal to the reference either way.
#include "ref_pipeline.hpp"

namespace gift {

std::shared_ptr<const Backend> make_cpu_backend() {
  const ref::Kernels kernels = ref::scalar_kernels();
  return ref::make_pipeline_backend("cpu", "default path on the CPU", kernels);
}

}  // namespace gift
