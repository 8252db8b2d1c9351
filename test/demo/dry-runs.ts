/** Invariant E2: a dry run leaves no trace. */
import { reservations } from "../../functions/shared/annotations/table.ts";
import type { StoredPod } from "../fake-cluster/objects.ts";
import type { World } from "../fake-cluster/world.ts";

/**
 * Watches pods that were asked for in dry runs and that no other client wants to remove. Any later change is a trace, whether
 * it is of the pod, of a ledger or of an Event.
 */
export class DryRuns {
  /** Names of these pods, by uid. */
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

  /** Later changes are no traces any more. */
  end(): void {
    this.#asked.clear();
  }

  /** Reports one trace for each pod. */
  #narrate(uid: string, what: string): void {
    const name = this.#asked.get(uid);
    this.#asked.delete(uid);
    this.#violate(`${name} ${what} after nothing but a dry run`);
  }
}
