// The backend object over a table of kernels, the scalar reference made of it, and the single-number codecs.
#include "ref_pipeline.hpp"

namespace gift::ref {
namespace {

class PipelineBackend final : public Backend {
 public:
  PipelineBackend(const char* name, std::string description, const Kernels& kernels)
      : name_(name), description_(std::move(description)), kernels_(kernels) {}

  const char* name() const noexcept override { return name_; }
  std::string describe() const override { return description_; }
  Status encode(const EncodeArgs& args) const override { return ref::encode(kernels_, args); }
  Status reduce(const ReduceArgs& args) const override { return ref::reduce(kernels_, args); }
  Status decode(const DecodeArgs& args) const override { return ref::decode(kernels_, args); }
  Status commit(const CommitArgs& args) const override { return ref::commit(kernels_, args); }
  Status rollback(const RollbackArgs& args) const override { return ref::rollback(kernels_, args); }
  Status re_express(const TensorPlan& old_plan, const TensorPlan& new_plan, int shard, float* owner_residual,
                    float* residual) const override {
    return ref::re_express(kernels_, old_plan, new_plan, shard, owner_residual, residual);
  }
  Status convert(Element element, Rounding rounding, const RoundingKey& key, std::uint64_t first_index, std::span<const float> in,
                 std::span<std::uint16_t> out) const override {
    return ref::convert(kernels_, element, rounding, key, first_index, in, out);
  }
  Status expand(Element element, std::span<const std::uint16_t> in, std::span<float> out) const override {
    return ref::expand(kernels_, element, in, out);
  }
  const LinAlg& linalg() const override { return cpu_linalg(); }

 private:
  const char* name_;
  std::string description_;
  Kernels kernels_;
};

}  // namespace

Status convert(const Kernels& kernels, Element element, Rounding rounding, const RoundingKey& key, std::uint64_t first_index,
               std::span<const float> in, std::span<std::uint16_t> out) {
  const FpEnvironment environment;
  if (in.size() != out.size()) {
    return Status(Code::invalid_argument,
                  "convert: " + std::to_string(in.size()) + " values in, " + std::to_string(out.size()) + " out");
  }
  if (rounding == Rounding::sr && (element == Element::e8m0 || element == Element::f16)) {
    return Status(Code::invalid_argument, "convert: scales and f16 are never rounded stochastically");
  }
  kernels.convert_values(element, rounding, key, first_index, in, out);
  return Status();
}

Status expand(const Kernels& kernels, Element element, std::span<const std::uint16_t> in, std::span<float> out) {
  const FpEnvironment environment;
  if (in.size() != out.size()) {
    return Status(Code::invalid_argument,
                  "expand: " + std::to_string(in.size()) + " codes in, " + std::to_string(out.size()) + " values out");
  }
  kernels.expand_codes(element, in, out);
  return Status();
}

std::shared_ptr<const Backend> make_pipeline_backend(const char* name, std::string description, const Kernels& kernels) {
  return std::make_shared<PipelineBackend>(name, std::move(description), kernels);
}

}  // namespace gift::ref

namespace gift {

std::shared_ptr<const Backend> make_ref_backend() {
  return ref::make_pipeline_backend("ref", "scalar reference on the CPU", ref::scalar_kernels());
}

}  // namespace gift
