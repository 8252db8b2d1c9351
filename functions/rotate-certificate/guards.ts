/** Why this function waits, and what ends that. */
import { depends, type Guards, itself, person } from "../shared/base/guards.ts";
import { doneGuards } from "../shared/reconcile/guards.ts";

export const guards: Guards = {
  ...doneGuards,
  "trust-spreading": itself("every configuration trusts the next certificate; the 5 s are not over yet"),
  "key-spreading": itself("every configuration trusts the certificate; the 20 s of a review key are not over yet"),
  "configuration-refused": person(
    "a configuration cannot be listed or written",
    "see the message: a right is missing, or a policy refuses it",
  ),
  "bundle-awaited": person(
    "UPDATE_CA_BUNDLE=false, and a caBundle still lacks next-ca",
    "add next-ca of the Secret to it",
  ),
  "secret-missing": person(
    "there is no Secret, and Sluice may not make one, or its namespace is not there",
    "apply the manifests again, or do what the message says",
  ),
  "secret-unreadable": person(
    "ca, cert and key do not parse, or do not belong together",
    "empty the Secret, by the command in the message",
  ),
  "shadow-mode": person("something is due, and the function may not write", "set SLUICE_MODE=act"),
  contended: depends("others write the same objects again and again", "find out which client else writes the caBundle"),
};
