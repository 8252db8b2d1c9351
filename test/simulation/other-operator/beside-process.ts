/** What the simulation gets of a process beside rollout-operator. */
import type { AdmissionHandler } from "../../../functions/shared/admission/definition.ts";
import type { Context } from "../../../functions/shared/contract/context.ts";
import type { FunctionDefinition } from "../../../functions/shared/contract/definition.ts";
import type { PodHttp } from "../../../functions/shared/http/pod-http.ts";
import type { Cluster } from "../../../functions/shared/kubernetes/cluster.ts";

/** A process that stands by while rollout-operator runs. */
export interface Beside {
  /** The parts of its context. */
  readonly context: Pick<Context, "otherOperator" | "namespaces">;
  /** Its connection, which notes what it sends. */
  readonly cluster: Cluster;
  /** The same function, which notes what it begins. */
  noting(definition: FunctionDefinition): FunctionDefinition;
  /** The same handler of reviews, which notes what it answers. */
  answering(handler: AdmissionHandler): AdmissionHandler;
  /** The same HTTP to pods, which notes what it sends. */
  calling(pods: PodHttp): PodHttp;
}
