// Everything a C++ user of libgift includes.
#pragma once

#include "gift/basis.hpp"
#include "gift/calibrate.hpp"
#include "gift/codec.hpp"
#include "gift/fidelity.hpp"
#include "gift/format.hpp"
#include "gift/geometry.hpp"
#include "gift/inspect.hpp"
#include "gift/plan.hpp"
#include "gift/recipe.hpp"
#include "gift/safetensors.hpp"
#include "gift/session.hpp"
#include "gift/status.hpp"
#include "gift/transport.hpp"
#include "gift/verify.hpp"
#include "gift/version.hpp"
