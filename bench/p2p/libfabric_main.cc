// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// libfabric: tagged messages of its providers tcp (with rxm) and shm. Its shm does not sleep: a waiting thread polls.
#include <dirent.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_tagged.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "bench/p2p/ends.h"

namespace fusewire::bench {
namespace {

constexpr uint64_t kTag = 1;

void Check(int64_t result, const char* what) {
  if (result < 0) Die(std::string(what) + ": " + fi_strerror(static_cast<int>(-result)));
}

// Its shared memory is named after the process and remains when the process is killed, as servers are. Memory of ended
// processes would collide with that of a later process with the same id.
void RemoveLeftovers() {
  DIR* folder = opendir("/dev/shm");
  if (folder == nullptr) return;
  while (const dirent* entry = readdir(folder)) {
    int pid = 0, domain = 0, endpoint = 0, end = 0;
    const int read = std::sscanf(entry->d_name, "%d:%d:%d%n", &pid, &domain, &endpoint, &end);
    if (read != 3 || entry->d_name[end] != 0 || pid <= 0) continue;
    const bool lives = pid != getpid() && (kill(pid, 0) == 0 || errno != ESRCH);
    if (!lives) unlinkat(dirfd(folder), entry->d_name, 0);
  }
  closedir(folder);
}

class FabricEnd final : public End {
 public:
  explicit FabricEnd(const Way& way) : sleeps_(way.parked && way.wire == "tcp") {
    fi_info* hints = fi_allocinfo();
    hints->caps = FI_TAGGED | FI_SEND | FI_RECV;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->fabric_attr->prov_name = strdup(way.wire == "tcp" ? "tcp;ofi_rxm" : "shm");
    const bool tcp = way.wire == "tcp";
    if (!tcp) RemoveLeftovers();
    fi_info* info = nullptr;
    Check(fi_getinfo(FI_VERSION(1, 17), tcp ? "127.0.0.1" : nullptr, nullptr, tcp ? FI_SOURCE : 0, hints, &info),
          "fi_getinfo");
    needs_registration_ = (info->domain_attr->mr_mode & FI_MR_LOCAL) != 0;
    fid_fabric* fabric;
    Check(fi_fabric(info->fabric_attr, &fabric, nullptr), "fi_fabric");
    Check(fi_domain(fabric, info, &domain_, nullptr), "fi_domain");
    fi_cq_attr queue{};
    queue.format = FI_CQ_FORMAT_CONTEXT;
    queue.wait_obj = sleeps_ ? FI_WAIT_UNSPEC : FI_WAIT_NONE;
    queue.size = 1024;
    Check(fi_cq_open(domain_, &queue, &queue_, nullptr), "fi_cq_open");
    fi_av_attr table{};
    fid_av* addresses;
    Check(fi_av_open(domain_, &table, &addresses, nullptr), "fi_av_open");
    Check(fi_endpoint(domain_, info, &end_, nullptr), "fi_endpoint");
    Check(fi_ep_bind(end_, &addresses->fid, 0), "fi_ep_bind");
    Check(fi_ep_bind(end_, &queue_->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind");
    Check(fi_enable(end_), "fi_enable");
    char name[512];
    size_t length = sizeof(name);
    Check(fi_getname(&end_->fid, name, &length), "fi_getname");
    const std::string theirs = Swap(way, std::string(name, length));
    if (fi_av_insert(addresses, theirs.data(), 1, &peer_, 0, nullptr) != 1) Die("fi_av_insert");
  }

  void Send(const void* data, size_t size, uint64_t count) override {
    const size_t depth = DepthOf(size);
    uint64_t begun = 0, ended = 0;
    void* description = Register(data, size);
    while (ended < count) {
      while (begun < count && begun - ended < depth) {
        const ssize_t sent = fi_tsend(end_, data, size, description, peer_, kTag, &sends_ended_);
        if (sent == -FI_EAGAIN) break;
        Check(sent, "fi_tsend");
        ++begun;
      }
      ended += Await(&sends_ended_);
    }
  }
  void Receive(void* data, size_t size, uint64_t count) override {
    const size_t depth = DepthOf(size);
    uint64_t begun = 0, ended = 0;
    void* description = Register(data, size);
    while (ended < count) {
      while (begun < count && begun - ended < depth) {
        const ssize_t asked = fi_trecv(end_, data, size, description, FI_ADDR_UNSPEC, kTag, 0, &receives_ended_);
        if (asked == -FI_EAGAIN) break;
        Check(asked, "fi_trecv");
        ++begun;
      }
      ended += Await(&receives_ended_);
    }
  }

 private:
  void* Register(const void* data, size_t size) {
    if (!needs_registration_) return nullptr;
    if (data != registered_) {
      fid_mr* region;
      Check(fi_mr_reg(domain_, data, size, FI_SEND | FI_RECV, 0, 0, 0, &region, nullptr), "fi_mr_reg");
      registered_ = data;
      description_ = fi_mr_desc(region);
    }
    return description_;
  }
  // The number of completions for this context; others are kept for their own caller.
  uint64_t Await(uint64_t* counter) {
    if (*counter == 0) {
      fi_cq_entry entries[16];
      const ssize_t got = sleeps_ ? fi_cq_sread(queue_, entries, 16, nullptr, 1000) : fi_cq_read(queue_, entries, 16);
      if (got == -FI_EAGAIN) return 0;
      if (got == -FI_EAVAIL) Die("a tagged message failed");
      Check(got, "fi_cq_read");
      for (ssize_t i = 0; i < got; ++i) ++*static_cast<uint64_t*>(entries[i].op_context);
    }
    const uint64_t ended = *counter;
    *counter = 0;
    return ended;
  }

  const bool sleeps_;
  bool needs_registration_ = false;
  const void* registered_ = nullptr;
  void* description_ = nullptr;
  fid_domain* domain_ = nullptr;
  fid_cq* queue_ = nullptr;
  fid_ep* end_ = nullptr;
  fi_addr_t peer_ = 0;
  uint64_t sends_ended_ = 0, receives_ended_ = 0;
};

std::unique_ptr<End> MakeFabricEnd(const Way& way) { return std::make_unique<FabricEnd>(way); }

}  // namespace
}  // namespace fusewire::bench

int main(int argc, char** argv) {
  return fusewire::bench::MainOfEnds(argc, argv, "p2p_libfabric", {"tcp", "shm"}, fusewire::bench::MakeFabricEnd);
}
