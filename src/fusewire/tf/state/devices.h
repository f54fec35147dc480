// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The devices of a task, with incarnations that we choose. Every key of a tensor between tasks has its device's
// incarnation: a task that comes back with its state, and so with the same number, is the same to its peers.
// Home: any thread. Fails: with TensorFlow's reason.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include <tensorflow/core/common_runtime/device_mgr.h>
#include <tensorflow/core/protobuf/tensorflow_server.pb.h>
#include "fusewire/tf/bridge/compat.h"

namespace fusewire::tf {

// "CPU:0" -> its incarnation
using Incarnations = std::map<std::string, uint64_t>;

// As TensorFlow makes them for a server. A device that is not in `known` keeps the number that TensorFlow gave it.
TfStatus MakeDevices(const tensorflow::ServerDef& def, const Incarnations& known,
                     std::unique_ptr<tensorflow::DeviceMgr>* out);
Incarnations IncarnationsOf(const tensorflow::DeviceMgr& devices);
// Which state they hold: a task that comes back with the same number goes on where its snapshot was.
uint64_t StateOf(const tensorflow::DeviceMgr& devices);

// "/job:ps/replica:0/task:1/device:CPU:0" -> "CPU:0"
std::string ShortDevice(const std::string& device);

}  // namespace fusewire::tf
