// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Levels of processors, a call of a kernel, and the kernels of each level; arithmetic.h chooses among them. A level
// that this build lacks has no kernels. No function of the standard library is called, so that the linker can't merge a
// function compiled for a newer processor with one for all.
// Home: any thread, pure functions. Fails: with null, if there is no kernel.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fusewire/collective/kernels/types.h"

namespace fusewire::collective {

enum class Level : uint8_t {
  kBase,    // vectors of 16 bytes, on every processor
  kAvx2,    // with F16C
  kAvx512,  // F, BW, DQ and VL
};

// Arrays need no alignment. `to` is one of the sources, or overlaps none of them. `sources_count` is at least 1. The
// result is divided by `divisor`: the number of ranks in it for Op::kAverage, otherwise 1.
struct ReduceCall {
  void* to = nullptr;
  const void* const* sources = nullptr;
  size_t sources_count = 0;
  size_t count = 0;
  uint64_t divisor = 1;
};

using ReduceKernel = void (*)(const ReduceCall& call);

ReduceKernel FindBase(Op op, Type type);
ReduceKernel FindAvx2(Op op, Type type);
ReduceKernel FindAvx512(Op op, Type type);

// Floats of 16 bits to f32 and back, one at a time: for processors that have no instruction for it.
// Rounds to the nearest, ties to even; too large a value becomes infinite; a NaN stays a NaN, and is quiet.
float HalfToFloat(uint16_t half);
uint16_t FloatToHalf(float value);

// The one switch from an operation and a type to a kernel, for each way of computing: a Way defines how an array of
// each type is read (Number<T>, F16, Brain16, Truths), and has Kernel<Lane, op>(). Each is a separate type, see above.
template <class Way>
struct KernelFinder {
  template <class Lane>
  static ReduceKernel OfNumber(Op op) {
    switch (op) {
      case Op::kSum:
      case Op::kAverage: return Way::template Kernel<Lane, Op::kSum>();
      case Op::kProduct: return Way::template Kernel<Lane, Op::kProduct>();
      case Op::kMin: return Way::template Kernel<Lane, Op::kMin>();
      case Op::kMax: return Way::template Kernel<Lane, Op::kMax>();
      default: return nullptr;
    }
  }

  template <class Lane>
  static ReduceKernel OfBits(Op op) {
    switch (op) {
      case Op::kAnd: return Way::template Kernel<Lane, Op::kAnd>();
      case Op::kOr: return Way::template Kernel<Lane, Op::kOr>();
      case Op::kXor: return Way::template Kernel<Lane, Op::kXor>();
      default: return nullptr;
    }
  }

  template <class T>
  static ReduceKernel OfInteger(Op op) {
    using Lane = typename Way::template Number<T>;
    const ReduceKernel bits = OfBits<Lane>(op);
    return bits != nullptr ? bits : OfNumber<Lane>(op);
  }

  static ReduceKernel OfTruth(Op op) {
    using Lane = typename Way::Truths;
    if (op == Op::kMin) return Way::template Kernel<Lane, Op::kMin>();
    if (op == Op::kMax) return Way::template Kernel<Lane, Op::kMax>();
    return OfBits<Lane>(op);
  }

  static ReduceKernel Find(Op op, Type type) {
    switch (type) {
      case Type::kI8: return OfInteger<int8_t>(op);
      case Type::kI16: return OfInteger<int16_t>(op);
      case Type::kI32: return OfInteger<int32_t>(op);
      case Type::kI64: return OfInteger<int64_t>(op);
      case Type::kU8: return OfInteger<uint8_t>(op);
      case Type::kU16: return OfInteger<uint16_t>(op);
      case Type::kU32: return OfInteger<uint32_t>(op);
      case Type::kU64: return OfInteger<uint64_t>(op);
      case Type::kF16: return OfNumber<typename Way::F16>(op);
      case Type::kBf16: return OfNumber<typename Way::Brain16>(op);
      case Type::kF32: return OfNumber<typename Way::template Number<float>>(op);
      case Type::kF64: return OfNumber<typename Way::template Number<double>>(op);
      case Type::kBool: return OfTruth(op);
    }
    return nullptr;
  }
};

}  // namespace fusewire::collective
