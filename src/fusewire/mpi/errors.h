// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// MPI's errors: an error class, and the text that MPI_Error_string gives for it on the thread where it came up.
// Home: any thread; each has its own last error. Owns: its text.
#pragma once

#include <string>

namespace fusewire::mpi {

// Keeps the text, and returns the class.
int Fail(int error_class, std::string text);
// Of a code of the C API, whose text is fusewire_error(). `what`: what failed, in front of it.
int FailAs(int code, const std::string& what);
// The last error's text on this thread, if it was of this class.
std::string TextOf(int error_class);

}  // namespace fusewire::mpi
