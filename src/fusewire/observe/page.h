// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The page at /: one text that asks /status.json every second and shows it. It loads nothing else.
// Home: any thread. Owns: the text.
#pragma once

#include <string_view>

namespace fusewire::observe {

std::string_view Page();

}  // namespace fusewire::observe
