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
    return ref::convert(element, rounding, key, first_index, in, out);
  }
  Status expand(Element element, std::span<const std::uint16_t> in, std::span<float> out) const override {
    return ref::expand(element, in, out);
  }
  const LinAlg& linalg() const override { return cpu_linalg(); }

 private:
  const char* name_;
  std::string description_;
  Kernels kernels_;
};

std::uint16_t nearest(Element element, float x) noexcept {
  switch (element) {
    case Element::e4m3:
      return to_e4m3(x);
    case Element::e5m2:
      return to_e5m2(x);
    case Element::e2m1:
      return to_e2m1(x);
    case Element::e8m0:
      return to_e8m0_ceil(x);
    case Element::bf16:
      return to_bf16(x);
    case Element::f16:
      return to_f16_ieee(x);
  }
  return 0;
}

std::uint16_t stochastic(Element element, float x, std::uint32_t word) noexcept {
  if (element == Element::e4m3) return to_e4m3_sr(x, word);
  if (element == Element::e5m2) return to_e5m2_sr(x, word);
  return to_e2m1_sr(x, word);
}

float widen(Element element, std::uint16_t code) noexcept {
  const auto low = static_cast<std::uint8_t>(code);
  switch (element) {
    case Element::e4m3:
      return from_e4m3(low);
    case Element::e5m2:
      return from_e5m2(low);
    case Element::e2m1:
      return from_e2m1(low);
    case Element::e8m0:
      return from_e8m0(low);
    case Element::bf16:
      return from_bf16(code);
    case Element::f16:
      return from_f16(code);
  }
  return 0;
}

}  // namespace

Status convert(Element element, Rounding rounding, const RoundingKey& key, std::uint64_t first_index, std::span<const float> in,
               std::span<std::uint16_t> out) {
  const FpEnvironment environment;
  if (in.size() != out.size()) {
    return Status(Code::invalid_argument,
                  "convert: " + std::to_string(in.size()) + " values in, " + std::to_string(out.size()) + " out");
  }
  if (rounding == Rounding::rne) {
    for (std::size_t i = 0; i < in.size(); ++i) out[i] = nearest(element, in[i]);
    return Status();
  }
  if (element != Element::e4m3 && element != Element::e5m2 && element != Element::e2m1) {
    return Status(Code::invalid_argument, "convert: stochastic rounding is for e4m3, e5m2 and e2m1");
  }
  for (std::size_t i = 0; i < in.size(); ++i) {
    out[i] = stochastic(element, in[i], random_word(key, Stage::sender, first_index + i));
  }
  return Status();
}

Status expand(Element element, std::span<const std::uint16_t> in, std::span<float> out) {
  const FpEnvironment environment;
  if (in.size() != out.size()) {
    return Status(Code::invalid_argument,
                  "expand: " + std::to_string(in.size()) + " codes in, " + std::to_string(out.size()) + " values out");
  }
  for (std::size_t i = 0; i < in.size(); ++i) out[i] = widen(element, in[i]);
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
