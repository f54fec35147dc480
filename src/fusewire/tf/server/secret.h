// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The secret that all tasks of the cluster share, from a variable or from a file (docs/trust.md#the-secret).
// Home: any thread. Fails: with the reason, and how to fix it; the secret is in no message.
#pragma once

#include <string>

#include "fusewire/base/status.h"

namespace fusewire::tf {

// `word`: FUSEWIRE_SECRET, `file`: FUSEWIRE_SECRET_FILE. Empty if both are. As `of_environment` of
// python/fusewire/secret.py.
Result<std::string> ReadSecret(const std::string& word, const std::string& file);

}  // namespace fusewire::tf
