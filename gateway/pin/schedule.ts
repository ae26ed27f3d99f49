/** Something that serves from an hour on, until another's hour comes. */
export type Scheduled = Readonly<{ signsFromMs: number }>

/** The latest hour first; of equal hours the first listed wins, so that keys without hours go by their order. */
export const sortBySchedule = <Key extends Scheduled>(keys: readonly Key[]): readonly Key[] =>
  [...keys].sort((left, right) => right.signsFromMs - left.signsFromMs)

/** The key that signs at this moment, of keys so sorted. */
export const findDue = <Key extends Scheduled>(sorted: readonly Key[], nowMs: number): Key | undefined =>
  sorted.find(({ signsFromMs }) => signsFromMs <= nowMs)
