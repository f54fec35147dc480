// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Converts a Status to TensorFlow's and back. TensorFlow's recovery code reads the code and the text of an error, so
// both are those of its own gRPC.
#pragma once

#include <string>

#include <absl/strings/string_view.h>
#include "fusewire/base/bytes.h"
#include "fusewire/base/status.h"
#include "fusewire/tf/bridge/compat.h"
#include "fusewire/tf/heads/varint.h"

namespace fusewire::tf {

// An error of the wire, as the caller of TensorFlow's RPC gets it.
TfStatus ToTf(const Status& status);
// An error of TensorFlow's as a Status: ToTf restores its code, or returns kCancelled for a code that we do not have.
Status FromTf(const TfStatus& status);
// Appends the words by which TensorFlow's coordinators find the failed task.
TfStatus WithTarget(const TfStatus& status, const std::string& target, const char* method);
// Whether a step has ended so because the task that WithTarget() names is gone.
bool IsLostTask(const TfStatus& status);
// Whether the peer, or the way to it, is gone: the next call asks for its address again.
bool IsLost(const Status& status);

// status := code:varint [message:text payloads:varint (url:text value:text)*]     code 0: no more follows
void AppendTfStatus(const TfStatus& status, std::string* out);
// kDataLoss names the field that is wrong; `out` is then unchanged.
TfStatus ReadTfStatus(VarReader* reader, TfStatus* out);

// A status with this payload says that the parameter server has lost values that an earlier part of the step left
// there.
constexpr const char* kValuesGone = "fusewire/values-gone";

// Our bytes as the string views of TensorFlow's libraries, to compare and to build strings.

inline absl::string_view View(ConstBytes bytes) { return {reinterpret_cast<const char*>(bytes.data), bytes.size}; }

}  // namespace fusewire::tf
