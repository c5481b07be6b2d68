// Names of error codes.
#include "gift/status.hpp"

namespace gift {

const char* code_name(Code code) noexcept {
  switch (code) {
    case Code::ok:
      return "ok";
    case Code::invalid_argument:
      return "invalid_argument";
    case Code::io:
      return "io";
    case Code::bad_file:
      return "bad_file";
    case Code::bad_packet:
      return "bad_packet";
    case Code::mismatch:
      return "mismatch";
    case Code::timeout:
      return "timeout";
    case Code::unavailable:
      return "unavailable";
    case Code::numeric:
      return "numeric";
    case Code::out_of_memory:
      return "out_of_memory";
    case Code::peer_failed:
      return "peer_failed";
    case Code::internal:
      return "internal";
  }
  return "unknown";
}

}  // namespace gift
