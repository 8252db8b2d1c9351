/** The guards of reviews that any webhook of Sluice may answer. */
import { depends, type Guards, itself, person } from "../base/guards.ts";

/** The API server fails, or does not let Sluice look something up. */
export const failureGuards = {
  "api-server-away": itself("the API server did not answer, or had an error of its own", "see the message"),
  "credentials-refused": depends(
    "the API server answers 401: it does not accept Sluice's token or certificate",
    "nothing, if it passes: they are read again at each 401",
  ),
  "look-ups-busy": itself("many reviews name pods that are not in memory", "nothing: it passes"),
  "right-missing": person("Sluice has no right to do what it must", "give it the right that the message names"),
  late: itself("the answer took too long, and does not count", "nothing; if it stays, the API server is slow"),
} as const satisfies Guards;

/** The review is wrong. */
export const requestGuards = {
  "invalid-request": person(
    "the review is not what the webhook answers, or its object has another namespace or name than it says",
    "correct the rules of the webhook, or what sends the review",
  ),
} as const satisfies Guards;

/** The review is of another process. */
export const namespaceGuards = {
  "namespace-not-served": person("this process serves other namespaces", "give the webhook a namespaceSelector"),
} as const satisfies Guards;

/** Nothing is against it. */
export const allowedGuards = {
  allowed: itself("nothing is against the request, and it goes through"),
} as const satisfies Guards;
