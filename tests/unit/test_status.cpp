// Status: codes, messages and places.
#include "catch.hpp"
#include "gift/status.hpp"

TEST_CASE("a Status carries its code and message, and says where", "[status]") {
  const gift::Status ok;
  CHECK(ok.ok());
  CHECK(ok.at("a.safetensors").message().empty());
  const gift::Status bad(gift::Code::bad_file, "header is cut short");
  CHECK_FALSE(bad.ok());
  CHECK(bad.at("a.safetensors").message() == "a.safetensors: header is cut short");
  CHECK(bad.at("x").code() == gift::Code::bad_file);
}
