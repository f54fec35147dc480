// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The page at /: one text that asks /status.json every second and shows it. It loads nothing else.
// Home: any thread. Owns: the text. Fails: never.
#ifndef FUSEWIRE_OBSERVE_PAGE_H_
#define FUSEWIRE_OBSERVE_PAGE_H_

#include <string_view>

namespace fusewire {
namespace observe {

std::string_view Page();

}  // namespace observe
}  // namespace fusewire

#endif  // FUSEWIRE_OBSERVE_PAGE_H_
