// One include for Catch2 2.x (Debian 12) and 3.x (newer).
#pragma once

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;  // a global name in 2.x
#else
#include <catch2/catch.hpp>

#endif
