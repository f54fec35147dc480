// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A protobuf on the wire: in the head if it is small, otherwise in a segment of its own.
// Home: any thread. Fails: with false, for more than protobuf can carry (2 GiB), or another protobuf.
#pragma once

#include <string>

#include <google/protobuf/message_lite.h>
#include "fusewire/base/bytes.h"
#include "fusewire/buffer/buffer.h"

namespace fusewire::tf {

bool AppendProto(const google::protobuf::MessageLite& proto, std::string* head, Buffers* body);
bool ParseProto(ConstBytes rest_of_head, const Buffers& body, google::protobuf::MessageLite* proto);

}  // namespace fusewire::tf
