/** The annotation of a pod that runs a shipped program: JSON of an {@link ShippedPod}. */
export const shippedPodAnnotation = "test.sluice.dev/program";

export interface ShippedPod {
  /** The agent, or the server with functions. */
  readonly program: "agent" | "functions";
  /** Its image is pulled for so long, in milliseconds. */
  readonly startsAfterMs: number;
  /** More of its environment. */
  readonly env: Readonly<Record<string, string>>;
}
