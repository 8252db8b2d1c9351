/**
 * The webhook of sizes: the API server asks one of several processes about each change that makes a StatefulSet smaller. It
 * waits at most ten seconds, and asks again if the object has changed in storage meanwhile (rule R19).
 */
import { prepareDownscale } from "../../../functions/prepare-downscale/function.ts";
import type {
  AdmissionAnswer,
  AdmissionHandler,
  AdmissionRequest,
} from "../../../functions/shared/admission/definition.ts";
import { fieldsOf } from "../../../functions/shared/base/fields.ts";
import type { GroupView } from "../../../functions/shared/cache/cache.ts";
import type { Context } from "../../../functions/shared/contract/context.ts";
import { type Cluster, ClusterError, hasCode, type ObjectKey } from "../../../functions/shared/kubernetes/cluster.ts";
import { wrapCluster } from "../../../functions/shared/kubernetes/wrap-cluster.ts";
import type { Beside } from "../other-operator/beside-process.ts";
import type { SeedRun } from "../seed.ts";
import { decidedBy } from "../seen-view.ts";
import { type Process, runIn } from "../simulated-cluster.ts";

interface Webhook {
  readonly process: Process;
  readonly context: Context;
  readonly beside: Beside | undefined;
}

const timeoutMs = 10_000;
const mostTries = 4;
/** Rule R20: longest time that an API server may take to store an allowed change. Requests end after a minute. */
const mostStoringMs = 55_000;

export class SizeWebhooks {
  readonly #run: SeedRun;
  readonly #webhooks: Webhook[] = [];
  #reviews = 0;

  constructor(run: SeedRun) {
    this.#run = run;
  }

  /** Opens the shipped function in a process. */
  open(process: Process, context: Context, beside?: Beside): void {
    this.#webhooks.push({ process, context, beside });
  }

  /** The same cluster, except that the API server asks before it makes a StatefulSet smaller. */
  before(cluster: Cluster): Cluster {
    const patch: Cluster["patch"] = async (resource, key, body, options) => {
      const replicas = fieldsOf(fieldsOf(body)?.spec)?.replicas;
      if (resource !== "statefulsets" || typeof replicas !== "number")
        return cluster.patch(resource, key, body, options);
      return this.#reviewed(
        key,
        replicas,
        (resourceVersion) => {
          const metadata = { resourceVersion, ...fieldsOf(fieldsOf(body)?.metadata) };
          return cluster.patch(resource, key, { ...body, metadata }, options);
        },
        fieldsOf(fieldsOf(body)?.metadata)?.resourceVersion !== undefined,
      );
    };
    return wrapCluster(cluster, { patch });
  }

  /** Scales as a user does with `kubectl scale`. Resolves whatever the result is. */
  async scaleByHand(key: ObjectKey, replicas: number): Promise<void> {
    const { world, log, draw, plan } = this.#run;
    const storingMs = draw.chance(plan.scaling?.slow ?? 0) ? draw.between(0, mostStoringMs) : 0;
    try {
      await this.#reviewed(
        key,
        replicas,
        async (resourceVersion) => {
          if (storingMs > 0) await this.#storing(storingMs);
          const now = world.store.find("statefulsets", key);
          if (now?.metadata.resourceVersion !== resourceVersion) throw conflict();
          world.store.patch("statefulsets", key, { spec: { replicas } });
        },
        false,
      );
      log("user", `has scaled ${key.name} to ${replicas}`);
    } catch (error) {
      if (!(error instanceof ClusterError)) throw error;
      log("user", `may not scale ${key.name} to ${replicas}: ${error.message}`);
    }
  }

  #storing(ms: number): Promise<void> {
    const { world, onResume } = this.#run;
    const { promise, resolve } = Promise.withResolvers<void>();
    world.timeline.after(ms, () => {
      onResume();
      resolve();
    });
    return promise;
  }

  async #reviewed<T>(
    key: ObjectKey,
    replicas: number,
    carryOut: (resourceVersion: string) => Promise<T>,
    isConditional: boolean,
  ): Promise<T> {
    for (let tried = 1; ; tried++) {
      const old = this.#run.world.store.find("statefulsets", key);
      const resourceVersion = old?.metadata.resourceVersion ?? "";
      if (old !== undefined && replicas < (old.spec.replicas ?? 1)) {
        const answer = await this.#ask(old, { ...old, spec: { ...old.spec, replicas } });
        if (!answer.allowed) {
          const { code, reason, message } = answer;
          throw new ClusterError({ code, reason, message, verb: "patch", resource: "statefulsets" });
        }
      }
      try {
        return await carryOut(resourceVersion);
      } catch (error) {
        // A condition of the client itself fails for good. Otherwise the API server reads the object again, and asks again.
        if (isConditional || !hasCode(error, 409) || tried >= mostTries) throw error;
      }
    }
  }

  async #ask(
    oldObject: object & { readonly metadata: { readonly name: string } },
    object: object,
  ): Promise<AdmissionAnswer> {
    const { draw, world, namespace, log, onResume } = this.#run;
    const alive = this.#webhooks.filter(({ process }) => process.alive);
    const refused = { allowed: false, guard: "", reason: "InternalError", cause: "", field: "" } as const;
    const unanswered: AdmissionAnswer = { ...refused, code: 500, message: "the webhook does not answer" };
    if (alive.length === 0) return unanswered;
    const { process, context, beside } = draw.pick(alive);
    const alone = openAlone(context);
    const handler = beside?.answering(alone) ?? alone;
    const { promise, resolve } = Promise.withResolvers<AdmissionAnswer>();
    const end = (answer: AdmissionAnswer) => {
      onResume();
      resolve(answer);
    };
    const giveUp = world.timeline.after(timeoutMs, () => end(unanswered));
    runIn(process, () => {
      onResume();
      const request: AdmissionRequest = {
        uid: `size-${++this.#reviews}`,
        operation: "UPDATE",
        resource: { group: "apps", version: "v1", resource: "statefulsets" },
        subresource: "",
        user: "user",
        namespace,
        name: oldObject.metadata.name,
        dryRun: false,
        object,
        oldObject,
        path: "/admission/prepare-downscale",
        deadlineMs: context.cluster.monotonicMs() + timeoutMs - 1_000,
      };
      handler.review(request).then(
        (answer) => {
          this.#run.checkers.explained({ function: prepareDownscale.name, guard: answer.guard });
          if (!process.alive) return;
          world.timeline.after(this.#run.plan.faults.latencyMs, () => end(answer));
        },
        (error: unknown) => {
          if (!(error instanceof ClusterError)) throw error;
          resolve(unanswered);
        },
      );
    });
    const answer = await promise;
    giveUp();
    const outcome = answer.allowed ? "allowed" : `${answer.guard}: ${answer.message}`;
    log(process.name, `review of ${oldObject.metadata.name}: ${outcome}`);
    return answer;
  }
}

/** Makes the process answer its reviews independently: each write is checked by the view that its own review has read. */
function openAlone({ cluster, cache, ...context }: Context): AdmissionHandler {
  let seen: GroupView | undefined;
  return prepareDownscale.open({
    ...context,
    cache: {
      ...cache,
      read: async (...call) => {
        seen = await cache.read(...call);
        return seen;
      },
    },
    cluster: wrapCluster(cluster, {
      patch: (resource, key, body, options) => {
        if (seen !== undefined) decidedBy.set(body, seen);
        return cluster.patch(resource, key, body, options);
      },
    }),
  });
}

function conflict(): ClusterError {
  return new ClusterError({
    code: 409,
    reason: "Conflict",
    message: "changed",
    verb: "patch",
    resource: "statefulsets",
  });
}
