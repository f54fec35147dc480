// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Our bytes as the string views of TensorFlow's libraries, to compare and to build strings.
#pragma once

#include <absl/strings/string_view.h>
#include "fusewire/base/bytes.h"

namespace fusewire::tf {

inline absl::string_view View(ConstBytes bytes) { return {reinterpret_cast<const char*>(bytes.data), bytes.size}; }

}  // namespace fusewire::tf
