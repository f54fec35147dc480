// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/transport/ucx/library.h"

#include <dlfcn.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace fusewire::transport {
namespace {

namespace fs = std::filesystem;

constexpr char kDevices[] = "/sys/class/infiniband";
constexpr char kActive = '4';  // "4: ACTIVE", as the kernel writes it

std::string PortsThatAreUp(const fs::path& device) {
  std::string up;
  std::error_code error;
  for (fs::directory_iterator port(device / "ports", error), end; !error && port != end; port.increment(error)) {
    char state = 0;
    std::ifstream(port->path() / "state").get(state);
    if (state == kActive) up += device.filename().string() + ":" + port->path().filename().string() + " ";
  }
  return up;
}

}  // namespace

std::string RdmaDevices() {
  std::string all;
  std::error_code error;
  for (fs::directory_iterator device(kDevices, error), end; !error && device != end; device.increment(error))
    all += PortsThatAreUp(device->path());
  if (!all.empty()) all.pop_back();
  return all;
}

#if FUSEWIRE_HAS_UCX

namespace {

// UCX replaces the process's handlers of fatal signals when it is loaded, and a library should not decide that.
class KeptSignals {
 public:
  KeptSignals() {
    for (int i = 0; i < kCount; ++i) sigaction(kNumbers[i], nullptr, &kept_[i]);
  }
  ~KeptSignals() {
    for (int i = 0; i < kCount; ++i) sigaction(kNumbers[i], &kept_[i], nullptr);
  }
  KeptSignals(const KeptSignals&) = delete;
  KeptSignals& operator=(const KeptSignals&) = delete;

 private:
  static constexpr int kNumbers[] = {SIGILL, SIGSEGV, SIGBUS, SIGFPE};
  static constexpr int kCount = 4;
  struct sigaction kept_[kCount] = {};
};

Status NotLoaded(const std::string& name, const std::string& why) {
  return Status::Unavailable(name + " cannot be used: " + why)
      .Phase("load UCX")
      .Next("install libucx0 1.13 or newer where RDMA is wanted; without it all goes over TCP");
}

}  // namespace

Result<UcxLibrary> UcxLibrary::Load(const std::string& name) {
  const KeptSignals kept;
  void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* why = dlerror();
    return NotLoaded(name, why == nullptr ? "no reason was given" : why);
  }
  UcxLibrary library;
  const char* missing = nullptr;
#define FUSEWIRE_UCX_FUNCTION(function)                                                      \
  library.function = reinterpret_cast<decltype(library.function)>(dlsym(handle, #function)); \
  if (library.function == nullptr) missing = #function;
  FUSEWIRE_UCX_FUNCTIONS(FUSEWIRE_UCX_FUNCTION)
#undef FUSEWIRE_UCX_FUNCTION
  if (missing != nullptr) return NotLoaded(name, std::string("it has no ") + missing);
  return library;
}

std::string UcxLibrary::Version() const {
  unsigned major = 0, minor = 0, release = 0;
  ucp_get_version(&major, &minor, &release);
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(release);
}

std::string UcxLibrary::Describe(const char* call, ucs_status_t status) const {
  return std::string(call) + ": " + ucs_status_string(status);
}

#endif

}  // namespace fusewire::transport
