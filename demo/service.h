// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The demo's server: it echoes messages, receives tensors, and returns the parameters of one step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace fusewire::demo {

constexpr uint16_t kEcho = 1;        // head: any; the reply has the same head
constexpr uint16_t kTake = 2;        // body: tensors; they land in the server's memory
constexpr uint16_t kParameters = 3;  // the reply: kTensors tensors, described in its head

constexpr int kTensors = 200;
// 1 KB to 100 KB, the same on both sides: a small model's parameters.
size_t TensorBytes(int index);
size_t AllTensorBytes();
// The value of byte `at` of tensor `index`.
uint8_t TensorByte(int index, size_t at);

void ServeFusewire(uint16_t port, const std::function<void(uint16_t)>& ready);

}  // namespace fusewire::demo
