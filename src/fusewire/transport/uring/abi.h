// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The kernel's interface of io_uring: the numbers and structs that we use, defined here because the headers of the
// build machine may be older than the running kernel. The kernel never changes them.
#ifndef FUSEWIRE_TRANSPORT_URING_ABI_H_
#define FUSEWIRE_TRANSPORT_URING_ABI_H_

#include <cstddef>
#include <cstdint>

namespace fusewire {
namespace transport {
namespace uring {

// System calls; the same on every architecture that Linux got after 2011, and on x86.
constexpr long kSysSetup = 425, kSysEnter = 426, kSysRegister = 427;

// One order (SQE).
struct Sqe {
  uint8_t opcode;
  uint8_t flags;
  uint16_t ioprio;  // for sends and receives: kPollFirst, kReportUsage
  int32_t fd;
  uint64_t offset;
  uint64_t address;
  uint32_t length;
  uint32_t op_flags;  // MSG_*, or the flags of a cancel
  uint64_t user_data;
  uint16_t buffer_group;
  uint16_t personality;
  int32_t splice_fd;
  uint64_t address3;
  uint64_t padding;
};
static_assert(sizeof(Sqe) == 64);
static_assert(offsetof(Sqe, user_data) == 32);
static_assert(offsetof(Sqe, buffer_group) == 40);

// One outcome (CQE).
struct Cqe {
  uint64_t user_data;
  int32_t result;
  uint32_t flags;
};
static_assert(sizeof(Cqe) == 16);

struct SqOffsets {
  uint32_t head, tail, ring_mask, ring_entries, flags, dropped, array, reserved;
  uint64_t user_address;
};
struct CqOffsets {
  uint32_t head, tail, ring_mask, ring_entries, overflow, cqes, flags, reserved;
  uint64_t user_address;
};
struct Params {
  uint32_t sq_entries, cq_entries, flags, sq_thread_cpu, sq_thread_idle, features, wq_fd, reserved[3];
  SqOffsets sq;
  CqOffsets cq;
};
static_assert(sizeof(Params) == 120);

// One shared buffer for receives. The tail of their ring is in the last two bytes of the first entry.
struct BufferEntry {
  uint64_t address;
  uint32_t length;
  uint16_t number;
  uint16_t tail;
};
static_assert(sizeof(BufferEntry) == 16);
struct BufferRing {
  uint64_t address;
  uint32_t entries;
  uint16_t group;
  uint16_t flags;
  uint64_t reserved[3];
};
static_assert(sizeof(BufferRing) == 40);

// How long to wait, for kEnterExtended.
struct KernelTime {
  int64_t seconds;
  int64_t nanoseconds;
};
struct WaitArguments {
  uint64_t signals;
  uint32_t signals_bytes;
  uint32_t min_wait_us;
  uint64_t time;
};
static_assert(sizeof(WaitArguments) == 24);

// The abilities of a kernel.
struct ProbedOp {
  uint8_t opcode;
  uint8_t reserved;
  uint16_t flags;
  uint32_t reserved2;
};
struct Probe {
  uint8_t last_opcode;
  uint8_t count;
  uint16_t reserved;
  uint32_t reserved2[3];
  ProbedOp ops[64];
};
static_assert(offsetof(Probe, ops) == 16);
constexpr uint16_t kOpSupported = 1;

// Orders.
constexpr uint8_t kNop = 0, kSendMessage = 9, kReceiveMessage = 10, kAsyncCancel = 14, kReceive = 27,
                  kSendMessageZeroCopy = 48;
// Their flags.
constexpr uint8_t kSelectBuffer = 1 << 5, kQuietIfWell = 1 << 6;
// Of sends and receives: wait before the first attempt; report whether a zero-copy send had to copy.
constexpr uint16_t kPollFirst = 1 << 0, kReportUsage = 1 << 3;

// Of outcomes.
constexpr uint32_t kTookBuffer = 1 << 0, kMoreToCome = 1 << 1, kMoreToRead = 1 << 2, kNotice = 1 << 3;
constexpr int kBufferNumberShift = 16;
constexpr uint32_t kNoticeCopied = 1U << 31;

// Of a new ring.
constexpr uint32_t kSetupCqSize = 1 << 3, kSetupClamp = 1 << 4, kSetupSubmitAll = 1 << 7, kSetupAsked = 1 << 8,
                   kSetupTellsOfWork = 1 << 9;
// Required abilities: one mapping for both queues; no outcome is lost; data of an order is read when it
// is submitted; waiting for a socket needs no thread; waits with a deadline; orders without an outcome.
constexpr uint32_t kFeatures = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 5 | 1 << 8 | 1 << 11;
constexpr int64_t kMapQueues = 0, kMapOrders = 0x10000000;
constexpr uint32_t kQueueOverflow = 1 << 1, kQueueWork = 1 << 2;

// Of io_uring_enter and io_uring_register.
constexpr uint32_t kEnterWait = 1 << 0, kEnterExtended = 1 << 3;
constexpr uint32_t kRegisterProbe = 8, kRegisterBufferRing = 22;

}  // namespace uring
}  // namespace transport
}  // namespace fusewire

#endif  // FUSEWIRE_TRANSPORT_URING_ABI_H_
