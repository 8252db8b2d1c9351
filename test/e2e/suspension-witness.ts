/** Watches pods and volume claims, and reports when each was taken and when it was gone, by a clock of this machine. */
import type { Metadata } from "../../functions/shared/kubernetes/cluster.ts";
import { Api, type ApiAccess } from "../controlplane/api.ts";
import { follow } from "../controlplane/follow.ts";

interface Seen {
  readonly metadata: Metadata;
}

/** The history of a pod, or of a volume claim, as a watch reported it; times in milliseconds since the epoch. */
export interface Story {
  readonly name: string;
  readonly uid: string;
  readonly madeMs: number;
  /** When it was first seen being deleted. */
  takenMs: number | undefined;
  goneMs: number | undefined;
  /** What its annotations said last. */
  annotations: Readonly<Record<string, string>>;
}

export class SuspensionWitness {
  readonly #pods = new Map<string, Story>();
  readonly #claims = new Map<string, Story>();
  readonly #stopping = new AbortController();
  readonly #api: Api;
  #following: readonly Promise<void>[] = [];

  private constructor(api: Api) {
    this.#api = api;
  }

  static async start(access: ApiAccess, namespace: string): Promise<SuspensionWitness> {
    const api = await Api.open(access, { userAgent: "sluice-test-witness" });
    const witness = new SuspensionWitness(api);
    const followed = await Promise.all([
      witness.#follow(`/api/v1/namespaces/${namespace}/pods`, witness.#pods),
      witness.#follow(`/api/v1/namespaces/${namespace}/persistentvolumeclaims`, witness.#claims),
    ]);
    witness.#following = followed.map(({ ended }) => ended);
    return witness;
  }

  #follow(path: string, stories: Map<string, Story>) {
    const known = new Map<string, true>();
    const gone = (uid: string) => {
      known.delete(uid);
      const story = stories.get(uid);
      if (story !== undefined) story.goneMs = Date.now();
    };
    const seen = ({ metadata }: Seen) => {
      const { uid, name, annotations = {}, deletionTimestamp } = metadata;
      known.set(uid, true);
      const story = stories.get(uid) ?? {
        name,
        uid,
        madeMs: Date.now(),
        takenMs: undefined,
        goneMs: undefined,
        annotations,
      };
      stories.set(uid, story);
      story.annotations = annotations;
      if (deletionTimestamp !== undefined) story.takenMs ??= Date.now();
    };
    return follow<Seen>(this.#api, { path, known, seen, gone }, this.#stopping.signal);
  }

  get pods(): readonly Story[] {
    return [...this.#pods.values()];
  }

  get claims(): readonly Story[] {
    return [...this.#claims.values()];
  }

  /** Pairs of pods, or of volume claims, of two zones that were terminating at one time. */
  get together(): readonly string[] {
    const overlaps = (stories: readonly Story[]) =>
      stories.flatMap((one) =>
        stories
          .filter((other) => zoneOf(one.name) < zoneOf(other.name) && overlap(one, other))
          .map((other) => `${one.name} and ${other.name}`),
      );
    return [...overlaps(this.pods), ...overlaps(this.claims)];
  }

  /** For each volume claim that was deleted: how long before that its pod was gone, in milliseconds. */
  get ages(): ReadonlyMap<string, number> {
    const taken = this.claims.filter(({ takenMs, goneMs }) => takenMs !== undefined || goneMs !== undefined);
    return new Map(
      taken.map((claim) => {
        const atMs = claim.takenMs ?? claim.goneMs ?? 0;
        const isOf = (pod: string) => claim.name.endsWith(`-${pod}`) || claim.name === `${pod}-data`;
        const pods = this.pods.filter(({ name, madeMs }) => isOf(name) && madeMs <= atMs);
        const lastMs = Math.max(...pods.map(({ goneMs = Number.POSITIVE_INFINITY }) => goneMs));
        return [claim.name, atMs - lastMs];
      }),
    );
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#api.close();
    await Promise.all(this.#following);
  }
}

function zoneOf(name: string): string {
  return /zone-[a-z]/.exec(name)?.[0] ?? "";
}

function overlap(one: Story, other: Story): boolean {
  const from = ({ takenMs, goneMs }: Story) => takenMs ?? goneMs ?? Number.POSITIVE_INFINITY;
  const to = ({ goneMs = Number.POSITIVE_INFINITY }: Story) => goneMs;
  return from(one) < to(other) && from(other) < to(one);
}
