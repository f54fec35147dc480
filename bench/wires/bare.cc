// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "bench/wires/bare.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace fusewire::bench {
namespace {

struct Slot {
  alignas(64) std::array<char, kSmallBytes> message;
  alignas(64) std::atomic<uint64_t> sequence;
};

struct Shared {
  Slot to_server, to_client;
  int server_event, client_event;  // descriptors of the server
  uint64_t address;                // of the memory that process_vm_readv reads
};

Shared* Map(int file) {
  void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) Die("mmap");
  return static_cast<Shared*>(memory);
}

Shared* MakeShared(int* file) {
  *file = memfd_create("bench", MFD_CLOEXEC);
  if (*file < 0 || ftruncate(*file, sizeof(Shared)) != 0) Die("memfd_create");
  return Map(*file);
}

int TakeDescriptor(const Options& options, int number) {
  const auto process = static_cast<int>(syscall(SYS_pidfd_open, options.server_pid, 0));
  const auto taken = static_cast<int>(syscall(SYS_pidfd_getfd, process, number, 0));
  if (taken < 0) Die("pidfd_getfd");
  close(process);
  return taken;
}

class EventWait {
 public:
  explicit EventWait(int event) : event_(event), poller_(epoll_create1(EPOLL_CLOEXEC)) {
    epoll_event watch{};
    watch.events = EPOLLIN;
    if (epoll_ctl(poller_, EPOLL_CTL_ADD, event, &watch) != 0) DieOfErrno("epoll_ctl");
  }
  void Wait() const {
    epoll_event ready;
    if (epoll_wait(poller_, &ready, 1, -1) < 0) Die("epoll_wait");
    uint64_t count;
    if (read(event_, &count, sizeof(count)) != sizeof(count)) Die("read an eventfd");
  }
  static void Tell(int event) {
    const uint64_t one = 1;
    if (write(event, &one, sizeof(one)) != sizeof(one)) Die("write an eventfd");
  }

 private:
  const int event_, poller_;
};

void Spin(const Slot& slot, uint64_t sequence) {
  while (slot.sequence.load(std::memory_order_acquire) != sequence) {
  }
}

}  // namespace

size_t BytesOfCase(const Options& options) {
  return static_cast<size_t>(std::atoi(options.case_name.c_str() + std::strlen("bulk_"))) << 20;
}

void ServeEventfd(const Options&) {
  int file;
  Shared* shared = MakeShared(&file);
  shared->server_event = eventfd(0, EFD_CLOEXEC);
  shared->client_event = eventfd(0, EFD_CLOEXEC);
  AnnouncePort(static_cast<uint16_t>(file));
  const EventWait wait(shared->server_event);
  while (true) {
    wait.Wait();
    shared->to_client.message = shared->to_server.message;
    EventWait::Tell(shared->client_event);
  }
}

Sample DriveEventfd(const Options& options) {
  Shared* shared = Map(TakeDescriptor(options, options.port));
  const int server_event = TakeDescriptor(options, shared->server_event);
  const EventWait wait(TakeDescriptor(options, shared->client_event));
  std::array<char, kSmallBytes> message{};
  return MeasureRoundTrips(options, [&] {
    shared->to_server.message = message;
    EventWait::Tell(server_event);
    wait.Wait();
    message = shared->to_client.message;
  });
}

void ServeRings(const Options&) {
  BindApart(true);
  int file;
  Shared* shared = MakeShared(&file);
  AnnouncePort(static_cast<uint16_t>(file));
  for (uint64_t sequence = 1;; ++sequence) {
    Spin(shared->to_server, sequence);
    shared->to_client.message = shared->to_server.message;
    shared->to_client.sequence.store(sequence, std::memory_order_release);
  }
}

Sample DriveRings(const Options& options) {
  BindApart(false);
  Shared* shared = Map(TakeDescriptor(options, options.port));
  std::array<char, kSmallBytes> message{};
  uint64_t sequence = 0;
  return MeasureRoundTrips(options, [&] {
    shared->to_server.message = message;
    shared->to_server.sequence.store(++sequence, std::memory_order_release);
    Spin(shared->to_client, sequence);
    message = shared->to_client.message;
  });
}

void ServeReadv(const Options& options) {
  int file;
  Shared* shared = MakeShared(&file);
  const std::vector<char> message(BytesOfCase(options), 'x');
  shared->address = reinterpret_cast<uint64_t>(message.data());
  AnnouncePort(static_cast<uint16_t>(file));
  while (true) pause();
}

Sample DriveReadv(const Options& options) {
  const Shared* shared = Map(TakeDescriptor(options, options.port));
  std::vector<char> landing(BytesOfCase(options));
  return MeasureBursts(options, landing.size(), [&](uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) {
      const iovec into = {landing.data(), landing.size()};
      const iovec from = {reinterpret_cast<void*>(shared->address), landing.size()};  // NOLINT: the server's
      if (process_vm_readv(options.server_pid, &into, 1, &from, 1, 0) != static_cast<ssize_t>(landing.size()))
        Die("process_vm_readv");
    }
  });
}

}  // namespace fusewire::bench
