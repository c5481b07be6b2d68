// Symbol visibility: libgift is built with hidden symbols, and what users call is marked GIFT_API.
#pragma once

#if defined(__GNUC__)
#define GIFT_API __attribute__((visibility("default")))
#else
#define GIFT_API
#endif
