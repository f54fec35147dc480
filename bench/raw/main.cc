// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <vector>

#include "bench/harness/harness.h"
#include "bench/raw/sockets.h"

namespace fusewire::bench {
namespace {

using Reader = bool (*)(int fd, void* data, size_t size);
using Writer = void (*)(int fd, const void* data, size_t size);

int ListenAndAnnounce(const Options& options) {
  uint16_t port = 0;
  const int listener = ListenOnLoopback(options.port, &port);
  AnnouncePort(port);
  return listener;
}

// --- rtt_64B, rtt_64B_busy: one thread on either side, one send and one recv per message ---

void ServeEcho(const Options& options, Reader read, Writer write) {
  const int listener = ListenAndAnnounce(options);
  while (true) {
    const int fd = AcceptOne(listener);
    std::array<char, kSmallBytes> message{};
    while (read(fd, message.data(), message.size())) write(fd, message.data(), message.size());
    close(fd);
  }
}

Sample DriveEcho(const Options& options, Reader read, Writer write) {
  const int fd = ConnectToLoopback(options.port);
  std::array<char, kSmallBytes> message{};
  return MeasureRoundTrips(options, [&] {
    write(fd, message.data(), message.size());
    if (!read(fd, message.data(), message.size())) Die("server closed");
  });
}

void ServeBlocking(const Options& options) { ServeEcho(options, ReadAll, WriteAll); }
Sample DriveBlocking(const Options& options) { return DriveEcho(options, ReadAll, WriteAll); }
void ServeBusy(const Options& options) { ServeEcho(options, ReadAllBusy, WriteAllBusy); }
Sample DriveBusy(const Options& options) { return DriveEcho(options, ReadAllBusy, WriteAllBusy); }

// --- bulk_4MiB: burst := count:u64 message*count, answered by one byte when the last message has landed ---

void ServeBulk(const Options& options) {
  const int listener = ListenAndAnnounce(options);
  std::vector<char> landing(kBulkBytes);
  while (true) {
    const int fd = AcceptOne(listener);
    uint64_t count = 0;
    while (ReadAll(fd, &count, sizeof(count))) {
      while (count > 0 && ReadAll(fd, landing.data(), landing.size())) --count;
      WriteAll(fd, "!", 1);
    }
    close(fd);
  }
}

Sample DriveBulk(const Options& options) {
  const int fd = ConnectToLoopback(options.port);
  const std::vector<char> message(kBulkBytes, 'x');
  return MeasureBursts(options, kBulkBytes, [&](uint64_t count) {
    char ack = 0;
    WriteAll(fd, &count, sizeof(count));
    for (uint64_t i = 0; i < count; ++i) WriteAll(fd, message.data(), message.size());
    if (!ReadAll(fd, &ack, 1)) Die("server closed");
  });
}

// --- reply_200, reply_200_skewed: request := 64 bytes, reply := size:u32*200 segment*200 ---

std::vector<std::vector<char>> MakeSegments(const Options& options) {
  std::vector<std::vector<char>> segments;
  for (const size_t size : SegmentSizes(options)) segments.emplace_back(size, 'x');
  return segments;
}

std::vector<iovec> PartsOf(std::vector<std::vector<char>>* segments) {
  std::vector<iovec> parts;
  for (std::vector<char>& segment : *segments) parts.push_back({segment.data(), segment.size()});
  return parts;
}

void ServeReply(const Options& options) {
  const int listener = ListenAndAnnounce(options);
  std::vector<std::vector<char>> segments = MakeSegments(options);
  std::array<uint32_t, kSegments> sizes{};
  for (size_t i = 0; i < kSegments; ++i) sizes[i] = static_cast<uint32_t>(segments[i].size());
  std::vector<iovec> parts = PartsOf(&segments);
  parts.insert(parts.begin(), {sizes.data(), sizeof(sizes)});
  while (true) {
    const int fd = AcceptOne(listener);
    std::array<char, kSmallBytes> request{};
    while (ReadAll(fd, request.data(), request.size())) WriteGather(fd, parts);
    close(fd);
  }
}

// Receives into the same 200 buffers every time; the sizes are read first, as a receiver that allocates would.
Sample DriveReply(const Options& options) {
  const int fd = ConnectToLoopback(options.port);
  std::vector<std::vector<char>> landings = MakeSegments(options);
  const std::vector<iovec> parts = PartsOf(&landings);
  size_t step_bytes = 0;
  for (const iovec& part : parts) step_bytes += part.iov_len;
  const std::array<char, kSmallBytes> request{};
  std::array<uint32_t, kSegments> sizes{};
  return MeasureBursts(options, step_bytes, [&](uint64_t steps) {
    for (uint64_t i = 0; i < steps; ++i) {
      WriteAll(fd, request.data(), request.size());
      if (!ReadAll(fd, sizes.data(), sizeof(sizes)) || !ReadScatter(fd, parts)) Die("server closed");
    }
  });
}

// --- links_1024: one epoll thread echoes on every link ---

void ServeLinks(const Options& options) {
  const int listener = ListenAndAnnounce(options);
  const int poller = epoll_create1(EPOLL_CLOEXEC);
  const auto watch = [poller](int fd) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = fd;
    if (epoll_ctl(poller, EPOLL_CTL_ADD, fd, &event) != 0) DieOfErrno("epoll_ctl");
  };
  watch(listener);
  std::array<epoll_event, 64> events{};
  std::array<char, kSmallBytes> message{};
  while (true) {
    const int ready = epoll_wait(poller, events.data(), static_cast<int>(events.size()), -1);
    for (int i = 0; i < ready; ++i) {
      const int fd = events[static_cast<size_t>(i)].data.fd;
      if (fd == listener) {
        watch(AcceptOne(listener));
      } else if (ReadAll(fd, message.data(), message.size())) {
        WriteAll(fd, message.data(), message.size());
      } else {
        close(fd);
      }
    }
  }
}

Sample DriveLinks(const Options& options) {
  std::vector<int> links;
  std::array<char, kSmallBytes> message{};
  const auto round_trip_on = [&](size_t link) {
    WriteAll(links[link], message.data(), message.size());
    if (!ReadAll(links[link], message.data(), message.size())) Die("server closed");
  };
  const auto open_to = [&](size_t count) {
    while (links.size() < count) {
      links.push_back(ConnectToLoopback(options.port));
      round_trip_on(links.size() - 1);
    }
  };
  return MeasureLinks(options, open_to, round_trip_on);
}

const std::vector<Case> kCases = {
    {"rtt_64B", ServeBlocking, DriveBlocking}, {"rtt_64B_busy", ServeBusy, DriveBusy},
    {"bulk_4MiB", ServeBulk, DriveBulk},       {"links_1024", ServeLinks, DriveLinks},
    {"reply_200", ServeReply, DriveReply},     {"reply_200_skewed", ServeReply, DriveReply},
};

}  // namespace
}  // namespace fusewire::bench

int main(int argc, char** argv) { return fusewire::bench::Main(argc, argv, "raw", fusewire::bench::kCases); }
