"""A DQN: the agent acts by one function, learns by another, and a third moves the target network's weights."""
#: bench only

import tensorflow as tf

keras, layers = tf.keras, tf.keras.layers


def network(name):
    return keras.Sequential(
        [
            keras.Input((8,)),
            # the online network: states forward and backward; the target network: next states, forward alone
            #: online/hidden 16x8x32: forward, wgrad
            #: target/hidden 16x8x32: forward
            layers.Dense(32, activation="relu", name="hidden"),
            #: online/values 16x32x4: forward, dgrad, wgrad
            #: target/values 16x32x4: forward
            layers.Dense(4, name="values"),
        ],
        name=name,
    )


online, target = network("online"), network("target")
optimizer = keras.optimizers.Adam(1e-3)


@tf.function
def act(state):
    return tf.argmax(online(state), axis=1)


@tf.function
def learn(states, actions, rewards, following):
    best = tf.reduce_max(target(following), axis=1)
    with tf.GradientTape() as tape:
        values = tf.reduce_sum(online(states) * tf.one_hot(actions, 4), axis=1)
        loss = tf.reduce_mean(tf.square(values - rewards - 0.99 * best))
    optimizer.apply_gradients(zip(tape.gradient(loss, online.trainable_variables), online.trainable_variables))


@tf.function
def follow():
    for to, of in zip(target.trainable_variables, online.trainable_variables):
        to.assign(0.995 * to + 0.005 * of)


states, rewards = tf.random.normal((16, 8)), tf.random.normal((16,))
actions = tf.zeros((16,), tf.int32)
steps = 0
for _ in range(36):
    for _ in range(2):
        act(states[:1])
    learn(states, actions, rewards, states)
    follow()
    steps += 1
print("steps", steps)
