/** Invariant E2: what is asked in a dry run leaves no trace. */
import { reservations } from "../../functions/shared/annotations/table.ts";
import type { StoredPod } from "../fake-cluster/objects.ts";
import type { World } from "../fake-cluster/world.ts";

/**
 * Watches pods that were asked for in dry runs and that no other client wants: whatever is done about one of them from then on
 * is a trace, be it to the pod, in a ledger or in an Event.
 */
export class DryRuns {
  /** By uid. */
  readonly #asked = new Map<string, string>();
  readonly #violate: (text: string) => void;

  constructor({ store }: World, violate: (text: string) => void) {
    this.#violate = violate;
    store.onChange("pods", ({ final: { metadata } }) => {
      if (this.#asked.has(metadata.uid)) this.#narrate(metadata.uid, "was touched");
    });
    store.onChange("leases", ({ current }) => {
      const reserved = current?.metadata.annotations?.[reservations.key] ?? "";
      for (const uid of [...this.#asked.keys()]) if (reserved.includes(uid)) this.#narrate(uid, "was reserved");
    });
    store.onChange("events", ({ current }) => {
      const { message = "" } = (current ?? {}) as { readonly message?: string };
      for (const [uid, name] of [...this.#asked]) {
        if (new RegExp(`\\b${name}\\b`).test(message)) this.#narrate(uid, "stands in an Event");
      }
    });
  }

  note({ metadata: { uid, name } }: StoredPod): void {
    this.#asked.set(uid, name);
  }

  /** Whatever is done from now on is no trace. */
  end(): void {
    this.#asked.clear();
  }

  /** Once for each pod. */
  #narrate(uid: string, what: string): void {
    const name = this.#asked.get(uid);
    this.#asked.delete(uid);
    this.#violate(`${name} ${what} after nothing but a dry run`);
  }
}
