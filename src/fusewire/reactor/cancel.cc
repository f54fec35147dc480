// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/reactor/cancel.h"

namespace fusewire::reactor {

CancelToken::~CancelToken() {
  MutexLock lock(mutex_);
  FUSEWIRE_CHECK(hooks_.empty());
  FUSEWIRE_CHECK(calling_ == nullptr);
}

void CancelToken::Cancel() {
  MutexLock lock(mutex_);
  if (cancelled_.exchange(true, std::memory_order_seq_cst)) return;
  caller_ = std::this_thread::get_id();
  while (CancelHook* const hook = hooks_.PopFront()) {
    calling_ = hook;
    lock.Unlock();  // what it does may take other locks
    hook->on_cancel_();
    lock.Lock();
    calling_ = nullptr;
    called_.NotifyAll();
  }
}

bool CancelToken::Ask() {
  if (!cancelled() && asking_ && asking_()) Cancel();
  return cancelled();
}

bool CancelToken::Add(CancelHook* hook) {
  MutexLock lock(mutex_);
  if (cancelled()) return false;
  hooks_.PushBack(hook);
  return true;
}

void CancelToken::Remove(CancelHook* hook) {
  MutexLock lock(mutex_);
  hook->Unlink();
  FUSEWIRE_CHECK(calling_ != hook || caller_ != std::this_thread::get_id());  // it would wait for itself
  while (calling_ == hook) called_.Wait(mutex_);
}

CancelHook::CancelHook(CancelToken* token, UniqueFunction<void()> on_cancel)
    : token_(token), on_cancel_(std::move(on_cancel)) {
  if (token_ != nullptr && !token_->Add(this)) on_cancel_();
}

CancelHook::~CancelHook() {
  if (token_ != nullptr) token_->Remove(this);
}

}  // namespace fusewire::reactor
