/**
 * The programs in the pods of one seed, as far as sizes need them. Like an ingester, a program keeps on its disk since when it
 * prepares to leave, and another pod of the same name finds that there.
 */
import type { Delivery } from "../../../functions/shared/http/calls.ts";
import type { StoredPod } from "../../fake-cluster/objects.ts";
import type { PodReply } from "../../fake-cluster/pod-http.ts";
import type { World } from "../../fake-cluster/world.ts";
import type { Draw } from "../draw.ts";

/** The path by which a pod is told some time before it leaves, and the one right before. */
export const delayPath = "/ingester/prepare-delayed";
export const leavePath = "/ingester/prepare-shutdown";

/** Shares of answers that are refused, rubbish, or missing (a broken connection or silence). */
export interface IngesterFaults {
  readonly refuse: number;
  readonly rubbish: number;
  readonly silent: number;
}

/** A pod's preparation to leave. */
export interface Notified {
  readonly sinceMs: number;
  /** When it was told to stay after all; undefined while it prepares to leave. */
  untilMs: number | undefined;
}

export class Ingesters {
  readonly #world: World;
  readonly #draw: Draw;
  readonly #faults: () => IngesterFaults;
  /** Start of the preparation in Unix seconds, by the pod's name, as it stands on the disk. */
  readonly #disks = new Map<string, number>();
  /** Start of the preparation of this very pod, by its uid. */
  readonly #notified = new Map<string, Notified>();
  readonly #leaving = new Map<string, Notified>();

  constructor(world: World, draw: Draw, faults: () => IngesterFaults) {
    this.#world = world;
    this.#draw = draw;
    this.#faults = faults;
    world.store.onChange("pods", ({ final, current }) => {
      if (current !== undefined) return;
      this.#notified.delete(final.metadata.uid);
      this.#leaving.delete(final.metadata.uid);
    });
  }

  readonly answer = ({ metadata: { name, uid } }: StoredPod, { method, path }: Delivery): PodReply => {
    const { refuse, rubbish, silent } = this.#faults();
    if (this.#draw.chance(silent)) return this.#draw.chance(0.5) ? "hang" : "break";
    if (this.#draw.chance(refuse)) return { status: method === "DELETE" ? 500 : 409, body: "locked" };
    if (path === leavePath) return this.#answerLeaving(uid, method);
    if (path !== delayPath) return { status: 404 };
    if (method === "DELETE") {
      this.#disks.delete(name);
      this.#stay(this.#notified, uid);
      return { status: 200 };
    }
    const sinceMs = this.#world.timeline.nowMs();
    const since = this.#disks.get(name) ?? Math.floor(sinceMs / 1000);
    this.#disks.set(name, since);
    this.#notify(this.#notified, uid);
    return { status: 200, body: this.#draw.chance(rubbish) ? "<html>" : JSON.stringify({ timestamp: since }) };
  };

  #answerLeaving(uid: string, method: string): PodReply {
    if (method === "DELETE") this.#stay(this.#leaving, uid);
    else this.#notify(this.#leaving, uid);
    return { status: 204 };
  }

  #notify(notified: Map<string, Notified>, uid: string): void {
    if (notified.get(uid)?.untilMs !== undefined || !notified.has(uid))
      notified.set(uid, { sinceMs: this.#world.timeline.nowMs(), untilMs: undefined });
  }

  #stay(notified: Map<string, Notified>, uid: string): void {
    const one = notified.get(uid);
    if (one !== undefined) one.untilMs ??= this.#world.timeline.nowMs();
  }

  /**
   * Since when this very pod has prepared for a later departure, and whether it was told to stay since. Undefined if it was
   * never asked itself. The time before the pod was created does not count, whatever its disk says.
   */
  delayed({ metadata: { name, uid, creationTimestamp = "" } }: StoredPod): Notified | undefined {
    const notified = this.#notified.get(uid);
    const disk = this.#disks.get(name);
    if (notified === undefined || disk === undefined) return notified;
    const sinceMs = Math.max(disk * 1000, Date.parse(creationTimestamp));
    return { ...notified, sinceMs: Math.min(notified.sinceMs, sinceMs) };
  }

  /** The same for the call right before it leaves. */
  leaving(uid: string): Notified | undefined {
    return this.#leaving.get(uid);
  }

  /** True if the pod would answer that it prepares to leave. */
  isPrepared({ metadata: { name, uid } }: StoredPod): boolean {
    const leaving = this.#leaving.get(uid);
    return this.#disks.has(name) || (leaving !== undefined && leaving.untilMs === undefined);
  }

  /** A pod came back prepared from its disk, or a user told it. */
  prepareByHand(name: string): void {
    this.#disks.set(name, Math.floor(this.#world.timeline.nowMs() / 1000));
  }
}
