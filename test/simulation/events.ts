/**
 * Passes on the changes of the world: as events that trigger processes, as bookmarks of watches, and as lines of the history.
 */
import type { ObjectKey, Resource } from "../../functions/shared/kubernetes/cluster.ts";
import { describePod, describeSet } from "../support/checkers/liveness.ts";
import { groupLabel, setNameOf } from "../support/checkers/raw.ts";
import type { Actor } from "./actor.ts";
import type { Processes } from "./processes.ts";
import type { SeedRun } from "./seed.ts";
import type { RevisionClock } from "./stale-views.ts";

/** Every open watch gets a bookmark about once a minute. */
const bookmarkEveryMs = 60_000;

export class Events implements Actor {
  readonly name = "events";
  readonly #run: SeedRun;

  constructor(run: SeedRun, revisions: RevisionClock, processes: Processes) {
    this.#run = run;
    const { world, isVerbose } = run;
    const { store, timeline } = world;
    const notify = (resource: Resource, { namespace, name }: ObjectKey, groups: Iterable<string | undefined>) => {
      revisions.note(timeline.nowMs(), store.revision);
      const by = { resource, namespace, name };
      for (const group of groups) if (group !== undefined) processes.report({ namespace, group }, by);
    };
    store.onChange("pods", ({ final: { metadata } }) => {
      const { namespace } = metadata;
      if (isVerbose) this.#record("pod", namespace, describePod(world, metadata));
      const set = store.find("statefulsets", { namespace, name: setNameOf(metadata.name) });
      notify("pods", metadata, [set?.metadata.labels?.[groupLabel]]);
    });
    store.onChange("statefulsets", ({ previous, final }) => {
      const { namespace } = final.metadata;
      if (isVerbose) this.#record("set", namespace, describeSet(world, final.metadata));
      notify(
        "statefulsets",
        final.metadata,
        new Set([previous, final].map((set) => set?.metadata.labels?.[groupLabel])),
      );
    });
    store.onChange("leases", () => revisions.note(timeline.nowMs(), store.revision));
  }

  #record(what: string, namespace: string, message: string): void {
    this.#run.log(what, namespace === this.#run.namespace ? message : `${namespace}/${message}`);
  }

  start(): void {
    const { world, draw } = this.#run;
    world.timeline.after(bookmarkEveryMs * draw.between(0.9, 1.1), () => {
      for (const resource of ["pods", "statefulsets", "zoneawarepoddisruptionbudgets", "poddisruptionbudgets"] as const)
        world.store.sendBookmarks(resource);
      this.start();
    });
  }
}
