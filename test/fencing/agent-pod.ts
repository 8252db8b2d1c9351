/** The annotation of a pod that runs the shipped agent: JSON of an {@link AgentPod}. */
export const agentPodAnnotation = "test.sluice.dev/agent";

export interface AgentPod {
  /** Its image is pulled for so long, in milliseconds. */
  readonly startsAfterMs: number;
  /** More of its environment. */
  readonly env: Readonly<Record<string, string>>;
}
