"""An eager actor and critic: both tapes are over before the first gradient is taken."""
#: bench only

import tensorflow as tf

keras, layers = tf.keras, tf.keras.layers
actor = keras.Sequential(
    [
        keras.Input((8,)),
        layers.Dense(32, activation="tanh", name="hidden"),  #: actor/hidden 16x8x32: forward, wgrad
        layers.Dense(4, name="out"),  #: actor/out 16x32x4: forward, dgrad, wgrad
    ],
    name="actor",
)
critic = keras.Sequential(
    [
        keras.Input((8,)),
        layers.Dense(24, activation="tanh", name="hidden"),  #: critic/hidden 16x8x24: forward, wgrad
        layers.Dense(1, name="out"),  #: critic/out 16x24x1: forward, dgrad, wgrad
    ],
    name="critic",
)
actor_optimizer, critic_optimizer = keras.optimizers.SGD(0.01), keras.optimizers.SGD(0.01)
states, returns = tf.random.normal((16, 8)), tf.random.normal((16, 1))
steps = 0
for _ in range(36):
    with tf.GradientTape() as critic_tape:
        values = critic(states, training=True)
        critic_loss = tf.reduce_mean(tf.square(values - returns))
    with tf.GradientTape() as actor_tape:
        chances = tf.nn.log_softmax(actor(states, training=True))
        actor_loss = -tf.reduce_mean(chances[:, :1] * tf.stop_gradient(returns - values))
    critic_gradients = critic_tape.gradient(critic_loss, critic.trainable_variables)
    critic_optimizer.apply_gradients(zip(critic_gradients, critic.trainable_variables))
    actor_gradients = actor_tape.gradient(actor_loss, actor.trainable_variables)
    actor_optimizer.apply_gradients(zip(actor_gradients, actor.trainable_variables))
    steps += 1
print("steps", steps)
