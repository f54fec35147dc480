// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/transport/tls/library.h"

#include <dlfcn.h>

#include "fusewire/base/sanitizers.h"

namespace fusewire::transport {

#if FUSEWIRE_HAS_TLS
namespace {

constexpr char kName[] = "libssl.so.3";
// The library uses its own functions, whatever else this process has under the same names. The sanitizers' runtimes
// forbid this, since they replace functions for all libraries.
constexpr int kFlags = RTLD_NOW | RTLD_LOCAL | (kSanitized ? 0 : RTLD_DEEPBIND);

Status NotLoaded(const std::string& why) {
  return Status::Invalid(std::string(kName) + " cannot be used: " + why)
      .Phase("load OpenSSL")
      .Next("install OpenSSL 3 (libssl3, openssl-libs), or unset the FUSEWIRE_TLS settings");
}

Result<const TlsLibrary*> Load() {
  void* handle = dlopen(kName, kFlags);
  if (handle == nullptr) {
    const char* why = dlerror();
    return NotLoaded(why == nullptr ? "no reason was given" : why);
  }
  static TlsLibrary library;
  const char* missing = nullptr;
#define FUSEWIRE_TLS_FUNCTION(function)                                                      \
  library.function = reinterpret_cast<decltype(library.function)>(dlsym(handle, #function)); \
  if (library.function == nullptr) missing = #function;
  FUSEWIRE_TLS_FUNCTIONS(FUSEWIRE_TLS_FUNCTION)
#undef FUSEWIRE_TLS_FUNCTION
  if (missing != nullptr) return NotLoaded(std::string("it has no ") + missing);
  return &library;
}

}  // namespace

Result<const TlsLibrary*> TlsLibrary::The() {
  static const Result<const TlsLibrary*> loaded = Load();
  return loaded;
}

unsigned long TlsLibrary::LastError() const {
  unsigned long last = 0;
  while (unsigned long error = ERR_get_error()) last = error;
  return last;
}

#endif

}  // namespace fusewire::transport
