// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/mpi/errors.h"

#include <utility>

#include "fusewire/mpi/abi.h"
#include "fusewire/p2p/c_api.h"

namespace fusewire::mpi {
namespace {

constexpr int kInvalid = 1;  // of docs/errors.md: the caller's arguments

struct LastError {
  int error_class = number::kSUCCESS;
  std::string text;
};
thread_local LastError last_error;

}  // namespace

int Fail(int error_class, std::string text) {
  last_error.error_class = error_class;
  last_error.text = std::move(text);
  return error_class;
}

int FailAs(int code, const std::string& what) {
  const char* const text = fusewire_error();
  std::string said = text == nullptr || *text == 0 ? "code " + std::to_string(code) : text;
  // What C API and C++ callers do next is not in the power of a program of JAX.
  if (code != kInvalid) {
    said = said.substr(0, said.rfind("; next: "));
    said += "; next: find out what has happened there, and start the program again (see docs/jax.md#errors)";
  }
  return Fail(number::kERR_OTHER, what + ": " + said);
}

std::string TextOf(int error_class) {
  if (error_class == number::kSUCCESS) return "no error";
  if (error_class == last_error.error_class) return last_error.text;
  return "error class " + std::to_string(error_class) + "; its text is that of another thread or call";
}

}  // namespace fusewire::mpi
