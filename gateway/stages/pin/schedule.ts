export type Scheduled = Readonly<{ signsFromMs: number }>

/** The latest start first. Equal starts keep their order, so that without a Signs-From the first key signs. */
export const sortBySchedule = <Key extends Scheduled>(keys: readonly Key[]): readonly Key[] =>
  [...keys].sort((left, right) => right.signsFromMs - left.signsFromMs)

export const findDue = <Key extends Scheduled>(sorted: readonly Key[], nowMs: number): Key | undefined =>
  sorted.find(({ signsFromMs }) => signsFromMs <= nowMs)
