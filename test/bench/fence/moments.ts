/** When an object first was in a state: by watches of the API server, and by the clock of this process. */
import { Api, type ApiAccess } from "../../controlplane/api.ts";
import { follow } from "../../controlplane/follow.ts";

/** A Node, a Lease or a pod, as far as moments of a fence rest on them. */
export interface WatchedObject {
  readonly metadata: {
    readonly name: string;
    readonly uid: string;
    readonly annotations?: Readonly<Record<string, string>>;
    readonly deletionTimestamp?: string;
  };
  readonly spec?: { readonly nodeName?: string; readonly taints?: readonly { readonly key: string }[] };
  readonly status?: {
    readonly nodeInfo?: { readonly bootID: string };
    readonly conditions?: readonly { readonly type: string; readonly status: string }[];
  };
}

/** The status of its condition Ready; undefined where it has none. */
export const readinessOf = ({ status }: WatchedObject): string | undefined =>
  status?.conditions?.find(({ type }) => type === "Ready")?.status;

/** Paths of the lists that are watched. */
export interface WatchedPaths {
  readonly nodes: string;
  readonly leases: string;
  readonly pods: string;
}

interface Waiting {
  matches(object: WatchedObject): boolean;
  resolve(atMs: number): void;
}

export class Moments {
  readonly #waiting: Readonly<Record<keyof WatchedPaths, Set<Waiting>>> = {
    nodes: new Set(),
    leases: new Set(),
    pods: new Set(),
  };
  readonly #stopping = new AbortController();
  readonly #ended: Promise<void>[] = [];

  readonly #api: Api;

  private constructor(api: Api) {
    this.#api = api;
  }

  /** Resolves when all watches run. Throws if the API server refuses one. */
  static async start(access: ApiAccess, paths: WatchedPaths): Promise<Moments> {
    const moments = new Moments(await Api.open(access, { userAgent: "sluice-test-bench" }));
    try {
      for (const type of ["nodes", "leases", "pods"] as const) await moments.#follow(type, paths[type]);
    } catch (error) {
      await moments.stop();
      throw error;
    }
    return moments;
  }

  async #follow(type: keyof WatchedPaths, path: string): Promise<void> {
    const seen = (object: WatchedObject): void => this.#note(type, object);
    const follower = { path, known: new Map<string, unknown>(), seen, gone: () => {} };
    const { ended } = await follow<WatchedObject>(this.#api, follower, this.#stopping.signal);
    this.#ended.push(ended);
  }

  /** Resolves when the watches have ended. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#api.close();
    await Promise.all(this.#ended);
  }

  #note(type: keyof WatchedPaths, object: WatchedObject): void {
    const atMs = performance.now();
    for (const one of this.#waiting[type]) {
      if (!one.matches(object)) continue;
      this.#waiting[type].delete(one);
      one.resolve(atMs);
    }
  }

  /**
   * The time of `performance.now()` at which a watch shows an object that matches, for the first time from now on. Undefined
   * where that takes longer than `timeoutMs`.
   */
  next(
    type: keyof WatchedPaths,
    timeoutMs: number,
    matches: (object: WatchedObject) => boolean,
  ): Promise<number | undefined> {
    const { promise, resolve } = Promise.withResolvers<number | undefined>();
    const waiting: Waiting = {
      matches,
      resolve(atMs) {
        clearTimeout(timer);
        resolve(atMs);
      },
    };
    const timer = setTimeout(() => {
      this.#waiting[type].delete(waiting);
      resolve(undefined);
    }, timeoutMs);
    this.#waiting[type].add(waiting);
    return promise;
  }
}
