// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// UCX: tagged messages of UCP, over its tcp, and over its shared memory (posix for small ones, cma for large).
#include <ucp/api/ucp.h>

#include <cstdlib>
#include <deque>

#include "bench/p2p/ends.h"

namespace fusewire::bench {
namespace {

constexpr ucp_tag_t kTag = 1;

void Check(ucs_status_t status, const char* what) {
  if (status != UCS_OK) Die(std::string(what) + ": " + ucs_status_string(status));
}

class UcxEnd final : public End {
 public:
  explicit UcxEnd(const Way& way) : parked_(way.parked) {
    ucp_config_t* config = nullptr;
    Check(ucp_config_read(nullptr, nullptr, &config), "ucp_config_read");
    Check(ucp_config_modify(config, "TLS", way.wire == "tcp" ? "tcp" : "posix,cma"), "UCX_TLS");
    if (way.wire == "tcp") Check(ucp_config_modify(config, "NET_DEVICES", "lo"), "UCX_NET_DEVICES");
    ucp_params_t params{};
    params.field_mask = UCP_PARAM_FIELD_FEATURES;
    params.features = UCP_FEATURE_TAG | (parked_ ? static_cast<uint64_t>(UCP_FEATURE_WAKEUP) : 0);
    ucp_context_h context;
    Check(ucp_init(&params, config, &context), "ucp_init");
    ucp_config_release(config);
    ucp_worker_params_t worker_params{};
    worker_params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    worker_params.thread_mode = UCS_THREAD_MODE_SINGLE;
    Check(ucp_worker_create(context, &worker_params, &worker_), "ucp_worker_create");
    ucp_address_t* address;
    size_t length;
    Check(ucp_worker_get_address(worker_, &address, &length), "ucp_worker_get_address");
    const std::string theirs = Swap(way, std::string(reinterpret_cast<const char*>(address), length));
    ucp_worker_release_address(worker_, address);
    ucp_ep_params_t end_params{};
    end_params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
    end_params.address = reinterpret_cast<const ucp_address_t*>(theirs.data());
    Check(ucp_ep_create(worker_, &end_params, &end_), "ucp_ep_create");
  }

  void Send(const void* data, size_t size, uint64_t count) override {
    ucp_request_param_t param{};
    Run(size, count, [&] { return ucp_tag_send_nbx(end_, data, size, kTag, &param); });
  }
  void Receive(void* data, size_t size, uint64_t count) override {
    ucp_request_param_t param{};
    Run(size, count, [&] { return ucp_tag_recv_nbx(worker_, data, size, kTag, ~ucp_tag_t{0}, &param); });
  }

 private:
  template <typename Begin>
  void Run(size_t size, uint64_t count, const Begin& begin) {
    const size_t depth = DepthOf(size);
    std::deque<void*> under_way;
    for (uint64_t i = 0; i < count; ++i) {
      while (under_way.size() >= depth) WaitForFirst(&under_way);
      void* request = begin();
      if (UCS_PTR_IS_ERR(request)) Check(UCS_PTR_STATUS(request), "a tagged message");
      if (request != nullptr) under_way.push_back(request);
    }
    while (!under_way.empty()) WaitForFirst(&under_way);
  }
  void WaitForFirst(std::deque<void*>* under_way) {
    ucs_status_t status;
    while ((status = ucp_request_check_status(under_way->front())) == UCS_INPROGRESS) {
      if (ucp_worker_progress(worker_) == 0 && parked_) ucp_worker_wait(worker_);
    }
    if (status != UCS_OK) Check(status, "a tagged message");
    ucp_request_free(under_way->front());
    under_way->pop_front();
  }
  const bool parked_;
  ucp_worker_h worker_ = nullptr;
  ucp_ep_h end_ = nullptr;
};

std::unique_ptr<End> MakeUcxEnd(const Way& way) { return std::make_unique<UcxEnd>(way); }

}  // namespace
}  // namespace fusewire::bench

int main(int argc, char** argv) {
  return fusewire::bench::MainOfEnds(argc, argv, "p2p_ucx", {"tcp", "shm"}, fusewire::bench::MakeUcxEnd);
}
