// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A callable that can be moved, not copied, and stores captures of up to 48 bytes inside itself, without an allocation.
// Home: its holder's. Owns: the callable. Fails: calling an empty one is a bug and ends the process.
#pragma once

#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

#include "fusewire/base/check.h"

namespace fusewire {

template <class Signature>
class UniqueFunction;

template <class R, class... Args>
class UniqueFunction<R(Args...)> {
 public:
  UniqueFunction() = default;
  UniqueFunction(std::nullptr_t) {}  // NOLINT(google-explicit-constructor)

  template <class F, class = std::enable_if_t<!std::is_same_v<std::decay_t<F>, UniqueFunction>>>
  UniqueFunction(F&& callable) {  // NOLINT(google-explicit-constructor,bugprone-forwarding-reference-overload)
    using Callable = std::decay_t<F>;
    if constexpr (kFitsInside<Callable>) {
      ::new (static_cast<void*>(inside_)) Callable(std::forward<F>(callable));
      table_ = &kInsideTable<Callable>;
    } else {
      ::new (static_cast<void*>(inside_)) Callable*(new Callable(std::forward<F>(callable)));
      table_ = &kOutsideTable<Callable>;
    }
  }

  UniqueFunction(UniqueFunction&& other) noexcept { TakeFrom(&other); }
  UniqueFunction& operator=(UniqueFunction&& other) noexcept {
    if (this != &other) {
      Reset();
      TakeFrom(&other);
    }
    return *this;
  }
  UniqueFunction(const UniqueFunction&) = delete;
  UniqueFunction& operator=(const UniqueFunction&) = delete;
  ~UniqueFunction() { Reset(); }

  explicit operator bool() const { return table_ != nullptr; }

  R operator()(Args... args) {
    FUSEWIRE_CHECK(table_ != nullptr);
    return table_->call(inside_, std::forward<Args>(args)...);
  }

 private:
  static constexpr size_t kInsideBytes = 48;
  template <class Callable>
  static constexpr bool kFitsInside =
      sizeof(Callable) <= kInsideBytes &&
      alignof(Callable) <= alignof(std::max_align_t) && std::is_nothrow_move_constructible_v<Callable>;
  struct Table {
    R (*call)(void*, Args&&...);
    void (*move)(void* from, void* to);  // constructs at `to`, destroys `from`
    void (*destroy)(void*);
  };

  template <class Callable>
  static constexpr Table kInsideTable = {
      [](void* at, Args&&... args) -> R { return (*static_cast<Callable*>(at))(std::forward<Args>(args)...); },
      [](void* from, void* to) {
        ::new (to) Callable(std::move(*static_cast<Callable*>(from)));
        static_cast<Callable*>(from)->~Callable();
      },
      [](void* at) { static_cast<Callable*>(at)->~Callable(); }};

  template <class Callable>
  static constexpr Table kOutsideTable = {
      [](void* at, Args&&... args) -> R { return (**static_cast<Callable**>(at))(std::forward<Args>(args)...); },
      [](void* from, void* to) { ::new (to) Callable*(*static_cast<Callable**>(from)); },
      [](void* at) { delete *static_cast<Callable**>(at); }};

  void TakeFrom(UniqueFunction* other) noexcept {
    table_ = other->table_;
    if (table_ != nullptr) table_->move(other->inside_, inside_);
    other->table_ = nullptr;
  }
  void Reset() {
    if (table_ == nullptr) return;
    const Table* table = std::exchange(table_, nullptr);
    table->destroy(inside_);
  }

  alignas(std::max_align_t) unsigned char inside_[kInsideBytes];
  const Table* table_ = nullptr;
};

}  // namespace fusewire
