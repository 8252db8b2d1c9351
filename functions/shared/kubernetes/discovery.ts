/**
 * Which kinds the API server serves, and as what: asked when a caller needs one, and remembered for a while. It has no clock
 * and no connection of its own, so that the worlds of tests remember as production does.
 */
import { KindNotServedError } from "./cluster.ts";
import { aborted } from "./errors.ts";
import { groupOf, isDiscovered, type ServedKind } from "./resources.ts";
import { type ReadDocument, readServedKinds, type ServedKinds } from "./served-kinds.ts";

/** For so long a kind that is served is not asked for again, in milliseconds: CRDs seldom go, or get another version. */
const foundForMs = 300_000;
/** The same for a kind that is not served, because a user may be about to install its CRD, and for a kind after a 404. */
const missingForMs = 5_000;
/** The most groups that are remembered. Users name them in annotations; beyond the bound the least recently used is forgotten. */
const rememberedGroups = 100;
/** What can be the name of a group, and a part of a path that is only that. */
const groupName = /^[a-z0-9][-a-z0-9.]{0,252}$/;

/** Of one group. */
interface KindMemory {
  /** Request that is under way; no caller asks for the group beside it. */
  reading: Promise<DatedKinds> | undefined;
  answer: DatedKinds | undefined;
  /** A request for one of its kinds was answered with 404: the object is gone, or its whole type is. */
  isDoubted: boolean;
}

interface DatedKinds extends ServedKinds {
  /** When it was asked for, by the monotonic clock. */
  readonly askedMs: number;
}

export class Discovery {
  readonly #read: ReadDocument;
  readonly #nowMs: () => number;
  readonly #groups = new Map<string, KindMemory>();

  constructor(options: { readonly read: ReadDocument; readonly nowMs: () => number }) {
    this.#read = options.read;
    this.#nowMs = options.nowMs;
  }

  /** See `Cluster.resourceOf`. */
  async resourceOf(group: string, kind: string, signal?: AbortSignal): Promise<ServedKind> {
    const asked = { verb: "get", resource: kind, path: group === "" ? "/api" : `/apis/${group}` };
    if (signal?.aborted) throw aborted(asked);
    if (group !== "" && !groupName.test(group)) throw new KindNotServedError(group, kind);
    const memory = this.#memoryOf(group);
    const remembered = this.#remembered(memory, kind);
    const givenUp = () => aborted(asked);
    const { kinds, unread } = remembered ?? (await unlessAborted(this.#readOnce(group, memory), signal, givenUp));
    const found = kinds.get(kind);
    if (found !== undefined) return found;
    throw unread ?? new KindNotServedError(group, kind);
  }

  /**
   * A request for an object of this type was answered with 404: what is remembered of the type is asked again, but not twice in
   * five seconds, since most often the object alone is gone. Types of the table stay.
   */
  doubt(resource: string): void {
    if (!isDiscovered(resource)) return;
    const memory = this.#groups.get(groupOf(resource));
    if (memory !== undefined) memory.isDoubted = true;
  }

  #remembered({ answer, isDoubted }: KindMemory, kind: string): DatedKinds | undefined {
    if (answer === undefined) return undefined;
    const isSure = answer.kinds.has(kind) && answer.unread === undefined && !isDoubted;
    return this.#nowMs() - answer.askedMs < (isSure ? foundForMs : missingForMs) ? answer : undefined;
  }

  /** The youngest of all, now. */
  #memoryOf(group: string): KindMemory {
    const memory = this.#groups.get(group) ?? { reading: undefined, answer: undefined, isDoubted: false };
    this.#groups.delete(group);
    this.#groups.set(group, memory);
    const [oldest] = this.#groups.keys();
    if (this.#groups.size > rememberedGroups) this.#groups.delete(oldest as string);
    return memory;
  }

  #readOnce(group: string, memory: KindMemory): Promise<DatedKinds> {
    memory.reading ??= this.#readNow(group, memory).finally(() => {
      memory.reading = undefined;
    });
    return memory.reading;
  }

  async #readNow(group: string, memory: KindMemory): Promise<DatedKinds> {
    const askedMs = this.#nowMs();
    memory.isDoubted = false;
    const answer = { ...(await readServedKinds(group, this.#read)), askedMs };
    memory.answer = answer;
    return answer;
  }
}

/** Waits for a promise that callers share, until the signal of this caller is aborted. */
function unlessAborted<T>(shared: Promise<T>, signal: AbortSignal | undefined, givenUp: () => Error): Promise<T> {
  if (signal === undefined) return shared;
  const { promise, resolve, reject } = Promise.withResolvers<T>();
  const onAbort = () => reject(givenUp());
  signal.addEventListener("abort", onAbort, { once: true });
  shared.then(resolve, reject).finally(() => signal.removeEventListener("abort", onAbort));
  return promise;
}
