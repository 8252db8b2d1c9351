/**
 * Empties a namespace that is being deleted, and lets it go when nothing is left in it: as the namespace controller of
 * kube-controller-manager 1.36 does (pkg/controller/namespace/deletion).
 */

import type { Resource } from "../../functions/shared/kubernetes/cluster.ts";
import { resourceNames, type StoredObject, traitsOf } from "./objects.ts";
import type { Store } from "./store.ts";
import type { Cancel, Timeline } from "./timeline.ts";
import type { Change } from "./watch-log.ts";

const namespaced: readonly Resource[] = resourceNames.filter((resource) => traitsOf(resource).isNamespaced);

export class NamespaceController {
  readonly #timeline: Timeline;
  readonly #store: Store;
  readonly #delayMs: () => number;
  readonly #subscriptions: readonly Cancel[];
  /** Those that are being deleted, by name. */
  readonly #ending = new Set<string>();

  constructor(options: { readonly timeline: Timeline; readonly store: Store; readonly delayMs: () => number }) {
    this.#timeline = options.timeline;
    this.#store = options.store;
    this.#delayMs = options.delayMs;
    const onContent = (change: Change<StoredObject>): void => this.#onContent(change);
    this.#subscriptions = [
      this.#store.onChange("namespaces", (change: Change<StoredObject>) => this.#onNamespace(change)),
      ...namespaced.map((resource) => this.#store.onChange(resource, onContent)),
    ];
  }

  stop(): void {
    for (const cancel of this.#subscriptions) cancel();
  }

  #onNamespace({ current, final }: Change<StoredObject>): void {
    const { name } = final.metadata;
    if (current === undefined) this.#ending.delete(name);
    else if (current.metadata.deletionTimestamp !== undefined && !this.#ending.has(name)) {
      this.#ending.add(name);
      this.#plan(name);
    }
  }

  /** What goes last lets its namespace go. */
  #onContent({ current, final }: Change<StoredObject>): void {
    const { namespace = "" } = final.metadata;
    if (current === undefined && this.#ending.has(namespace)) this.#plan(namespace);
  }

  #plan(name: string): void {
    this.#timeline.after(this.#delayMs(), () => {
      if (this.#ending.has(name)) this.#empty(name);
    });
  }

  #empty(name: string): void {
    let left = 0;
    // Of types that were defined meanwhile, too. A type whose definition is gone has no objects.
    for (const resource of this.#store.served()) {
      if (!traitsOf(resource).isNamespaced) continue;
      for (const { metadata } of this.#store.list(resource, { namespace: name }).items) {
        const { uid, deletionTimestamp } = metadata;
        const options = { preconditions: { uid }, propagationPolicy: "Background" } as const;
        const isGone =
          deletionTimestamp === undefined &&
          this.#store.delete(resource, { namespace: name, name: metadata.name }, options).removed;
        if (!isGone) left++;
      }
    }
    if (left === 0) this.#store.patch("namespaces", { namespace: "", name }, { spec: { finalizers: null } });
  }
}
